-- name: send
INSERT INTO outbox (shard, message) VALUES (?1, ?2)

-- name: addressed
-- The shards to which something is on its way.
SELECT DISTINCT shard FROM outbox

-- name: head
SELECT id, message FROM outbox WHERE shard = ?1 ORDER BY id LIMIT ?2

-- name: all
SELECT id, message FROM outbox WHERE id > ?1 ORDER BY id LIMIT ?2

-- name: drop
DELETE FROM outbox WHERE shard = ?1 AND id <= ?2

-- name: last
SELECT last FROM received WHERE shard = ?1

-- name: took
INSERT INTO received (shard, last) VALUES (?1, ?2) ON CONFLICT (shard) DO UPDATE SET last = excluded.last

-- name: here
SELECT shard, shards FROM meta
