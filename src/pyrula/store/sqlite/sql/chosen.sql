-- name: of
SELECT shard, times FROM chosen WHERE run_id = ?1

-- name: put
-- At the shard to which an id belongs: the first one decides where its run is.
INSERT INTO chosen (run_id, shard, times) VALUES (?1, ?2, 1)
ON CONFLICT (run_id) DO UPDATE SET times = times + 1
RETURNING run_id, shard, times

-- name: came
-- Where its run is.
INSERT INTO chosen (run_id, shard, times) VALUES (?1, ?2, ?3)
ON CONFLICT (run_id) DO UPDATE SET shard = excluded.shard, times = excluded.times

-- name: cancel
INSERT INTO chosen (run_id, shard, times) VALUES (?1, -1, 0) ON CONFLICT (run_id) DO NOTHING

-- name: cancelled
DELETE FROM chosen WHERE run_id = ?1 AND shard = -1 RETURNING run_id

-- name: leaving
-- What is to be told of runs that are swept.
SELECT c.run_id, c.times FROM runs AS r JOIN chosen AS c ON c.run_id = r.run_id WHERE r.seq = ?1

-- name: drop
DELETE FROM chosen WHERE run_id = ?1

-- name: farewell
DELETE FROM chosen WHERE run_id = ?1 AND times = ?2
