-- name: run
SELECT r.seq, r.run_id, r.workflow, r.priority, r.key, s.stamp, r.keys
FROM runs AS r JOIN stamps AS s ON s.id = r.stamp WHERE r.seq = ?1

-- name: seats
-- A run and its ancestors, the nearest first; a thousand generations should do. Those in between may be elsewhere. The joins go from the few to the many.
WITH RECURSIVE line (run_id, depth) AS (
    SELECT ?1, 0
    UNION ALL
    SELECT coalesce(r.parent, a.parent), line.depth + 1
    FROM line
    LEFT JOIN runs AS r ON r.run_id = line.run_id
    LEFT JOIN ancestors AS a ON a.run_id = line.run_id
    WHERE coalesce(r.parent, a.parent) IS NOT NULL AND line.depth < 1000
)
SELECT ?1, s.gate, r.run_id
FROM line CROSS JOIN runs AS r ON r.run_id = line.run_id CROSS JOIN slots AS s ON s.seq = r.seq
WHERE s.held = 1
ORDER BY line.depth

-- name: family
-- Children, their children and so on, those that are over left out: they need no lane, their children may. Those in
-- between may be elsewhere.
WITH RECURSIVE family (run_id, depth) AS (
    SELECT ?1, 0
    UNION ALL
    SELECT c.run_id, family.depth + 1 FROM family CROSS JOIN runs AS c ON c.parent = family.run_id WHERE family.depth < 1000
    UNION ALL
    SELECT c.run_id, family.depth + 1 FROM family CROSS JOIN ancestors AS c ON c.parent = family.run_id
    WHERE family.depth < 1000
)
SELECT r.seq, r.lane FROM family CROSS JOIN runs AS r ON r.run_id = family.run_id
WHERE r.state = 'open' AND family.depth > 0 ORDER BY r.seq

-- name: keep
UPDATE slots SET held = 1 WHERE gate = ?1 AND seq = ?2 AND held = 0 RETURNING gate, seq

-- name: open
-- Its owner executes: it is inside.
INSERT INTO gates (id, name, key, kind, in_use) VALUES (?1, 'slot', ?2, 2, 1)
ON CONFLICT (id) DO UPDATE SET in_use = in_use + 1

-- name: take
INSERT INTO slots (gate, seq, held) VALUES (?1, ?2, 0)

-- name: lane
UPDATE runs SET lane = ?2 WHERE seq = ?1

-- name: heir
-- One whose lease is gone is about to give its slot back.
SELECT s.seq FROM slots AS s JOIN leases AS l ON l.seq = s.seq WHERE s.gate = ?1 AND s.seq <> ?2 LIMIT 1

-- name: leave_lane
DELETE FROM queue WHERE lane = ?1 AND resumed IN (0, 1) AND seq = ?2 RETURNING resumed, stamp
