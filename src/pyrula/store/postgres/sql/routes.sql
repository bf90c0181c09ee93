-- name: of
SELECT workflow, how, gates, closed FROM routes WHERE workflow = $1::text

-- name: lock
-- As `of`, for whoever submits: until its commit the routing stays what it is.
SELECT how, gates, closed FROM routes WHERE workflow = $1::text FOR SHARE

-- name: all
SELECT workflow, how, gates, closed FROM routes ORDER BY workflow

-- name: close
-- how '': there is none yet, with no gates.
INSERT INTO routes (workflow, how, gates, closed) VALUES ($1::text, '', $3::text, $2::text)
ON CONFLICT (workflow) DO UPDATE SET closed = excluded.closed

-- name: open
UPDATE routes SET how = $2::text, gates = $3::text, closed = NULL WHERE workflow = $1::text AND closed = $4::text

-- name: reopen
UPDATE routes SET closed = NULL WHERE workflow = $1::text AND closed = $2::text AND how <> ''

-- name: forget
DELETE FROM routes WHERE workflow = $1::text

-- name: unmade
DELETE FROM routes WHERE workflow = $1::text AND closed = $2::text AND how = ''

-- name: unfinished
SELECT run_id FROM runs WHERE workflow = $1::text AND state = 'open' AND length(keys) > 2 ORDER BY seq DESC LIMIT $2::bigint

-- name: buffered
SELECT text FROM buffers WHERE workflow = $1::text LIMIT $2::bigint

-- name: scheduled
SELECT count(*) FROM schedules WHERE workflow = $1::text

-- name: gated
-- Those of these runs that have gates.
SELECT r.run_id, r.workflow, r.keys FROM unnest($1::text[]) AS u (run_id) JOIN runs AS r ON r.run_id = u.run_id
WHERE length(r.keys) > 2

-- name: shards
SELECT shard FROM shards

-- name: made
INSERT INTO shards (shard) SELECT u.shard FROM unnest($1::bigint[]) AS u (shard) ON CONFLICT (shard) DO NOTHING
