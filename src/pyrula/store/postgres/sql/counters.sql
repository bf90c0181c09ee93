-- name: gates
-- Gates that are not private to one run. One of the three gives all, so that a plan for whatever is asked seeks in the index.
SELECT g.id, n.name, n.key, n.kind, g.in_use, g.debt, g.at, g.q, g.paused, g.closed_by, g.starts
FROM (
    (SELECT * FROM gate_names WHERE name = $1::text AND key = $2::text)
    UNION ALL
    (SELECT * FROM gate_names WHERE $2::text IS NULL AND name = $1::text ORDER BY name, key LIMIT $3::bigint)
    UNION ALL
    (SELECT * FROM gate_names WHERE $1::text IS NULL AND ($2::text IS NULL OR key = $2::text)
     ORDER BY name, key LIMIT $3::bigint)
) AS n
JOIN gates AS g ON g.id = n.id
ORDER BY n.name, n.key LIMIT $3::bigint

-- name: gate
SELECT id, name, key, kind, in_use, debt, at, q, paused, closed_by, starts FROM gates WHERE id = $1::bytea

-- name: lanes
-- Lanes with queued runs: how many, and their gates, if a turn has looked at them; else what to tell them by.
WITH line (lane, seq, n) AS MATERIALIZED (
    SELECT lane, min(seq), count(*) FROM (SELECT lane, seq FROM queue LIMIT $1::bigint) AS q GROUP BY lane LIMIT $2::bigint
)
SELECT line.n, l.gates, s.stamp, r.keys
FROM line
LEFT JOIN lanes AS l ON l.id = line.lane
JOIN runs AS r ON r.seq = line.seq
JOIN stamps AS s ON s.id = r.stamp

-- name: declarations
-- The newest last: of two workflows that share a gate, what was declared last is shown.
SELECT declaration FROM definitions ORDER BY at

-- name: first
-- The stamp of the run that is first in line at a gate. However many lanes wait there, only the first of each of its
-- lines ("loader.lines") is looked at, at each priority.
WITH RECURSIVE line AS (
    SELECT u.gate, f.workflow, f.wait_stamp
    FROM unnest($1::bytea[]) AS u (gate)
    CROSS JOIN LATERAL (
        SELECT l.workflow, l.wait_stamp FROM lanes AS l WHERE l.gate = u.gate AND l.state = 2
        ORDER BY l.workflow DESC, l.wait_stamp DESC, l.priority DESC, l.wait_vtime DESC, l.wait_seq DESC, l.id DESC LIMIT 1
    ) AS f
    UNION ALL
    SELECT line.gate, f.workflow, f.wait_stamp
    FROM line
    CROSS JOIN LATERAL (
        SELECT l.workflow, l.wait_stamp FROM lanes AS l
        WHERE l.gate = line.gate AND l.state = 2 AND (l.workflow, l.wait_stamp) < (line.workflow, line.wait_stamp)
        ORDER BY l.workflow DESC, l.wait_stamp DESC, l.priority DESC, l.wait_vtime DESC, l.wait_seq DESC, l.id DESC LIMIT 1
    ) AS f
)
SELECT DISTINCT ON (line.gate) line.gate, s.stamp
FROM line
CROSS JOIN LATERAL (SELECT g.low_vtime, g.low_seq FROM gates AS g WHERE g.id = line.gate ORDER BY g.v DESC LIMIT 1) AS g
CROSS JOIN LATERAL (
    SELECT k.* FROM generate_series(1, 5) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT m.id, m.priority, m.wait_vtime, m.wait_seq FROM lanes AS m
        WHERE m.gate = line.gate AND m.state = 2 AND m.workflow = line.workflow AND m.wait_stamp = line.wait_stamp
          AND m.priority = p.priority AND (m.wait_vtime, m.wait_seq) >= (g.low_vtime, g.low_seq)
        ORDER BY m.wait_vtime, m.wait_seq, m.id LIMIT 1
    ) AS k
    ORDER BY k.priority LIMIT 1
) AS l
CROSS JOIN LATERAL (SELECT q.stamp FROM queue AS q WHERE q.lane = l.id ORDER BY q.resumed DESC, q.seq LIMIT 1) AS h
JOIN stamps AS s ON s.id = h.stamp
ORDER BY line.gate, l.priority, l.wait_vtime, l.wait_seq, l.id
