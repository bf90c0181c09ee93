-- name: run
SELECT r.seq, r.run_id, r.workflow, r.priority, r.key, s.stamp, r.keys
FROM unnest($1::bigint[]) AS u (seq) JOIN runs AS r ON r.seq = u.seq JOIN stamps AS s ON s.id = r.stamp

-- name: seats
-- A run and its ancestors, the nearest first; a thousand generations should do. Those in between may be elsewhere.
-- Differs: whatever the server takes a family to be in number, each is looked up; it would walk over all runs.
WITH RECURSIVE line (root, run_id, depth) AS (
    SELECT u.run_id COLLATE "C", u.run_id COLLATE "C", 0 FROM unnest($1::text[]) AS u (run_id)
    UNION ALL
    SELECT line.root, p.parent, line.depth + 1
    FROM line CROSS JOIN LATERAL (
        SELECT coalesce((SELECT r.parent FROM runs AS r WHERE r.run_id = line.run_id),
                        (SELECT a.parent FROM ancestors AS a WHERE a.run_id = line.run_id)) AS parent) AS p
    WHERE p.parent IS NOT NULL AND line.depth < 1000
)
SELECT line.root, s.gate, line.run_id
FROM line
CROSS JOIN LATERAL (SELECT x.seq FROM runs AS x WHERE x.run_id = line.run_id OFFSET 0) AS r
CROSS JOIN LATERAL (SELECT x.gate FROM slots AS x WHERE x.seq = r.seq AND x.held = 1 OFFSET 0) AS s
ORDER BY line.depth

-- name: family
-- Children, their children and so on, those that are over left out: they need no lane, their children may. Those in
-- between may be elsewhere.
WITH RECURSIVE family (run_id, depth) AS (
    SELECT $1::text COLLATE "C", 0
    UNION ALL
    SELECT c.run_id, family.depth + 1
    FROM family CROSS JOIN LATERAL (
        SELECT r.run_id FROM runs AS r WHERE r.parent = family.run_id
        UNION ALL SELECT a.run_id FROM ancestors AS a WHERE a.parent = family.run_id
    ) AS c
    WHERE family.depth < 1000
)
SELECT r.seq, r.lane
FROM family
CROSS JOIN LATERAL (SELECT x.seq, x.lane, x.state FROM runs AS x WHERE x.run_id = family.run_id OFFSET 0) AS r
WHERE r.state = 'open' AND family.depth > 0 ORDER BY r.seq

-- name: keep
UPDATE slots AS s SET held = 1 FROM unnest($1::bytea[], $2::bigint[]) AS u (gate, seq)
WHERE s.gate = u.gate AND s.seq = u.seq AND s.held = 0
RETURNING s.gate, s.seq

-- name: open
-- Its owner executes: it is inside.
WITH u AS (SELECT * FROM unnest($1::bytea[], $2::text[]) AS u (id, key)),
     known AS (
         UPDATE gates AS g SET in_use = g.in_use + 1, v = g.v + 1
         FROM u CROSS JOIN LATERAL (SELECT x.ctid AS at FROM gates AS x WHERE x.id = u.id ORDER BY x.v DESC LIMIT 1) AS newest
         WHERE g.ctid = newest.at
         RETURNING g.id)
INSERT INTO gates (id, name, key, kind, in_use)
SELECT u.id, 'slot', u.key, 2, 1 FROM u WHERE u.id NOT IN (SELECT id FROM known)

-- name: take
INSERT INTO slots (gate, seq, held) SELECT u.gate, u.seq, 0 FROM unnest($1::bytea[], $2::bigint[]) AS u (gate, seq)

-- name: lane
UPDATE runs AS r SET lane = u.lane FROM unnest($1::bigint[], $2::bytea[]) AS u (seq, lane) WHERE r.seq = u.seq

-- name: heir
-- One whose lease is gone is about to give its slot back.
SELECT s.seq FROM slots AS s JOIN leases AS l ON l.seq = s.seq WHERE s.gate = $1::bytea AND s.seq <> $2::bigint LIMIT 1

-- name: leave_lane
DELETE FROM queue WHERE lane = $1::bytea AND resumed IN (0, 1) AND seq = $2::bigint RETURNING resumed, stamp
