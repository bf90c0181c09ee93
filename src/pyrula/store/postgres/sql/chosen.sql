-- name: of
SELECT shard, times FROM chosen WHERE run_id = $1::text

-- name: put
-- At the shard to which an id belongs: the first one decides where its run is.
INSERT INTO chosen AS c (run_id, shard, times)
SELECT u.run_id, u.shard, 1 FROM unnest($1::text[], $2::bigint[]) AS u (run_id, shard)
ON CONFLICT (run_id) DO UPDATE SET times = c.times + 1
RETURNING run_id, shard, times

-- name: came
-- Where its run is.
INSERT INTO chosen (run_id, shard, times)
SELECT u.run_id, u.shard, u.times FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS u (run_id, shard, times)
ON CONFLICT (run_id) DO UPDATE SET shard = excluded.shard, times = excluded.times

-- name: cancel
INSERT INTO chosen (run_id, shard, times) VALUES ($1::text, -1, 0) ON CONFLICT (run_id) DO NOTHING

-- name: cancelled
DELETE FROM chosen AS c USING unnest($1::text[]) AS u (run_id)
WHERE c.run_id = u.run_id AND c.shard = -1
RETURNING c.run_id

-- name: leaving
-- What is to be told of runs that are swept.
SELECT c.run_id, c.times
FROM unnest($1::bigint[]) AS u (seq) JOIN runs AS r ON r.seq = u.seq JOIN chosen AS c ON c.run_id = r.run_id

-- name: drop
DELETE FROM chosen WHERE run_id = ANY($1::text[])

-- name: farewell
DELETE FROM chosen AS c USING unnest($1::text[], $2::bigint[]) AS u (run_id, times)
WHERE c.run_id = u.run_id AND c.times = u.times
