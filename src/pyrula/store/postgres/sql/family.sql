-- name: line
-- A run and its ancestors, the nearest first, wherever they are; shard NULL: here.
WITH RECURSIVE line (run_id, parent, shard, depth) AS (
    (SELECT run_id, parent, NULL::bigint, 0 FROM runs WHERE run_id = $1::text
     UNION ALL
     SELECT a.run_id, a.parent, a.shard, 0 FROM ancestors AS a
     WHERE a.run_id = $1::text AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.run_id = $1::text))
    UNION ALL
    SELECT line.parent, coalesce(r.parent, a.parent), CASE WHEN r.run_id IS NULL THEN a.shard END, line.depth + 1
    FROM line
    LEFT JOIN LATERAL (SELECT x.run_id, x.parent FROM runs AS x WHERE x.run_id = line.parent OFFSET 0) AS r ON true
    LEFT JOIN LATERAL (SELECT x.run_id, x.parent, x.shard FROM ancestors AS x WHERE x.run_id = line.parent OFFSET 0) AS a
        ON true
    WHERE line.parent IS NOT NULL AND (r.run_id IS NOT NULL OR a.run_id IS NOT NULL) AND line.depth < 1000
)
SELECT run_id, parent, shard FROM line ORDER BY depth

-- name: ancestor
-- Runs don't move: one that is here is known by its own row.
INSERT INTO ancestors (run_id, parent, shard)
SELECT u.run_id, u.parent, u.shard FROM unnest($1::text[], $2::text[], $3::bigint[]) AS u (run_id, parent, shard)
WHERE NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.run_id = u.run_id)
ON CONFLICT (run_id) DO NOTHING

-- name: parents
-- Those of these runs that are the parents, elsewhere, of runs here.
SELECT a.run_id, a.shard FROM unnest($1::text[]) AS u (run_id) JOIN ancestors AS a ON a.run_id = u.run_id

-- name: send
INSERT INTO away (parent, child, shard) VALUES ($1::text, $2::text, $3::bigint)
ON CONFLICT (parent, child) DO NOTHING
RETURNING shard

-- name: sent
SELECT shard FROM away WHERE parent = $1::text AND child = $2::text

-- name: ended
INSERT INTO away (parent, child, shard, state, result, error)
VALUES ($1::text, $2::text, $3::bigint, $4::text, $5::bytea, $6::bytea)
ON CONFLICT (parent, child) DO UPDATE SET state = excluded.state, result = excluded.result, error = excluded.error

-- name: ends
-- What children elsewhere ended with; state NULL: not heard of it yet.
SELECT a.child, a.state, a.result, a.error FROM unnest($1::text[]) AS u (child) JOIN away AS a ON a.child = u.child

-- name: open
-- Children elsewhere that are to be cancelled with their parent.
SELECT a.parent, a.child, a.shard FROM unnest($1::text[]) AS u (parent) JOIN away AS a ON a.parent = u.parent
WHERE a.state IS NULL

-- name: forget
DELETE FROM away WHERE parent IN (
    SELECT r.run_id FROM unnest($1::bigint[]) AS u (seq) JOIN runs AS r ON r.seq = u.seq)

-- name: parents_of
SELECT DISTINCT r.parent FROM unnest($1::bigint[]) AS u (seq) JOIN runs AS r ON r.seq = u.seq WHERE r.parent IS NOT NULL

-- name: stranger
-- An ancestor of nobody here any more; its own parent may be one, too.
DELETE FROM ancestors AS a WHERE a.run_id = ANY($1::text[])
  AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.parent = a.run_id)
  AND NOT EXISTS (SELECT 1 FROM ancestors AS d WHERE d.parent = a.run_id)
RETURNING a.parent

-- name: where
-- Where this shard knows a run to be: here (-1), or elsewhere.
SELECT -1::bigint FROM runs WHERE run_id = $1::text
UNION ALL SELECT shard FROM chosen WHERE run_id = $1::text AND shard >= 0
UNION ALL SELECT shard FROM away WHERE child = $1::text
UNION ALL SELECT shard FROM ancestors WHERE run_id = $1::text
