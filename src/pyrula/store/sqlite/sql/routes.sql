-- name: of
SELECT workflow, how, gates, closed FROM routes WHERE workflow = ?1

-- name: lock
-- As `of`, for whoever submits: until its commit the routing stays what it is.
SELECT how, gates, closed FROM routes WHERE workflow = ?1

-- name: all
SELECT workflow, how, gates, closed FROM routes ORDER BY workflow

-- name: close
-- how '': there is none yet, with no gates.
INSERT INTO routes (workflow, how, gates, closed) VALUES (?1, '', ?3, ?2)
ON CONFLICT (workflow) DO UPDATE SET closed = excluded.closed

-- name: open
UPDATE routes SET how = ?2, gates = ?3, closed = NULL WHERE workflow = ?1 AND closed = ?4

-- name: reopen
UPDATE routes SET closed = NULL WHERE workflow = ?1 AND closed = ?2 AND how <> ''

-- name: forget
DELETE FROM routes WHERE workflow = ?1

-- name: unmade
DELETE FROM routes WHERE workflow = ?1 AND closed = ?2 AND how = ''

-- name: unfinished
SELECT run_id FROM runs WHERE workflow = ?1 AND state = 'open' AND length(keys) > 2 ORDER BY seq DESC LIMIT ?2

-- name: buffered
SELECT text FROM buffers WHERE workflow = ?1 LIMIT ?2

-- name: scheduled
SELECT count(*) FROM schedules WHERE workflow = ?1

-- name: gated
-- Those of these runs that have gates.
SELECT run_id, workflow, keys FROM runs WHERE run_id = ?1 AND length(keys) > 2

-- name: shards
SELECT shard FROM shards

-- name: made
INSERT INTO shards (shard) VALUES (?1) ON CONFLICT (shard) DO NOTHING
