-- name: send
INSERT INTO outbox (shard, message)
SELECT u.shard, u.message FROM unnest($1::bigint[], $2::bytea[]) WITH ORDINALITY AS u (shard, message, n) ORDER BY u.n

-- name: addressed
-- The shards to which something is on its way.
SELECT DISTINCT shard FROM outbox

-- name: head
SELECT id, message FROM outbox WHERE shard = $1::bigint ORDER BY id LIMIT $2::bigint

-- name: all
SELECT id, message FROM outbox WHERE id > $1::bigint ORDER BY id LIMIT $2::bigint

-- name: drop
DELETE FROM outbox WHERE shard = $1::bigint AND id <= $2::bigint

-- name: last
SELECT last FROM received WHERE shard = $1::bigint

-- name: took
INSERT INTO received (shard, last) VALUES ($1::bigint, $2::bigint)
ON CONFLICT (shard) DO UPDATE SET last = excluded.last

-- name: here
SELECT shard, shards FROM meta
