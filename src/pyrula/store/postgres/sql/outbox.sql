-- name: send
INSERT INTO outbox (shard, message, at)
SELECT u.shard, u.message, u.at
FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) WITH ORDINALITY AS u (shard, message, at, n) ORDER BY u.n
RETURNING id

-- name: addressed
-- The shards to which something is on its way, and since when.
SELECT shard, min(at) FROM outbox GROUP BY shard

-- name: head
SELECT id, message FROM outbox WHERE shard = $1::bigint ORDER BY id LIMIT $2::bigint

-- name: all
SELECT id, message FROM outbox WHERE id > $1::bigint ORDER BY id LIMIT $2::bigint

-- name: drop
DELETE FROM outbox WHERE shard = $1::bigint AND id <= $2::bigint

-- name: drop_one
DELETE FROM outbox WHERE id = ANY($1::bigint[])

-- name: last
SELECT last FROM received WHERE shard = $1::bigint

-- name: took
INSERT INTO received (shard, last) VALUES ($1::bigint, $2::bigint)
ON CONFLICT (shard) DO UPDATE SET last = excluded.last

-- name: here
SELECT shard, shards FROM meta
