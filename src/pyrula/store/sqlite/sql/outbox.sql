-- name: send
INSERT INTO outbox (shard, message, at) VALUES (?1, ?2, ?3) RETURNING id

-- name: addressed
-- The shards to which something is on its way, and since when.
SELECT shard, min(at) FROM outbox GROUP BY shard

-- name: head
SELECT id, message FROM outbox WHERE shard = ?1 ORDER BY id LIMIT ?2

-- name: all
SELECT id, message FROM outbox WHERE id > ?1 ORDER BY id LIMIT ?2

-- name: drop
DELETE FROM outbox WHERE shard = ?1 AND id <= ?2

-- name: drop_one
DELETE FROM outbox WHERE id = ?1

-- name: last
SELECT last FROM received WHERE shard = ?1

-- name: took
INSERT INTO received (shard, last) VALUES (?1, ?2) ON CONFLICT (shard) DO UPDATE SET last = excluded.last

-- name: here
SELECT shard, shards FROM meta
