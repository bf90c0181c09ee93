-- name: line
-- A run and its ancestors, the nearest first, wherever they are; shard NULL: here.
WITH RECURSIVE line (run_id, parent, shard, depth) AS (
    SELECT run_id, parent, NULL, 0 FROM runs WHERE run_id = ?1
    UNION ALL
    SELECT a.run_id, a.parent, a.shard, 0 FROM ancestors AS a
    WHERE a.run_id = ?1 AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.run_id = ?1)
    UNION ALL
    SELECT line.parent, coalesce(r.parent, a.parent), CASE WHEN r.run_id IS NULL THEN a.shard END, line.depth + 1
    FROM line
    LEFT JOIN runs AS r ON r.run_id = line.parent
    LEFT JOIN ancestors AS a ON a.run_id = line.parent
    WHERE line.parent IS NOT NULL AND (r.run_id IS NOT NULL OR a.run_id IS NOT NULL) AND line.depth < 1000
)
SELECT run_id, parent, shard FROM line ORDER BY depth

-- name: ancestor
-- Runs don't move: one that is here is known by its own row.
INSERT INTO ancestors (run_id, parent, shard)
SELECT ?1, ?2, ?3 WHERE NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.run_id = ?1)
ON CONFLICT (run_id) DO NOTHING

-- name: parents
-- Those of these runs that are the parents, elsewhere, of runs here.
SELECT run_id, shard FROM ancestors WHERE run_id = ?1

-- name: send
INSERT INTO away (parent, child, shard) VALUES (?1, ?2, ?3) ON CONFLICT (parent, child) DO NOTHING RETURNING shard

-- name: sent
SELECT shard FROM away WHERE parent = ?1 AND child = ?2

-- name: ended
INSERT INTO away (parent, child, shard, state, result, error) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (parent, child) DO UPDATE SET state = excluded.state, result = excluded.result, error = excluded.error

-- name: ends
-- What children elsewhere ended with; state NULL: not heard of it yet.
SELECT child, state, result, error FROM away WHERE child = ?1

-- name: open
-- Children elsewhere that are to be cancelled with their parent.
SELECT parent, child, shard FROM away WHERE parent = ?1 AND state IS NULL

-- name: forget
DELETE FROM away WHERE parent IN (SELECT run_id FROM runs WHERE seq = ?1)

-- name: parents_of
SELECT DISTINCT parent FROM runs WHERE seq = ?1 AND parent IS NOT NULL

-- name: stranger
-- An ancestor of nobody here any more; its own parent may be one, too.
DELETE FROM ancestors
WHERE run_id = ?1
  AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.parent = ?1)
  AND NOT EXISTS (SELECT 1 FROM ancestors AS d WHERE d.parent = ?1)
RETURNING parent

-- name: where
-- Where this shard knows a run to be: here (-1), or elsewhere.
SELECT -1 FROM runs WHERE run_id = ?1
UNION ALL SELECT shard FROM chosen WHERE run_id = ?1 AND shard >= 0
UNION ALL SELECT shard FROM away WHERE child = ?1
UNION ALL SELECT shard FROM ancestors WHERE run_id = ?1
