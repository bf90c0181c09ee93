-- name: create
INSERT INTO meta (one, version, store, shard, shards, time, wall, turn, vtime, steering)
VALUES (1, ?1, ?2, ?3, ?4, ?5, ?5, 0, 0, 0)

-- name: identity
SELECT version, store, shard, shards FROM meta

-- name: read_time
SELECT time, wall FROM meta

-- name: time
UPDATE meta SET time = ?1, wall = ?2
