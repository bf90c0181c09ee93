-- name: gates
-- Gates that are not private to one run.
SELECT id, name, key, kind, in_use, debt, at, q, paused, closed_by, starts FROM gates
WHERE kind < 2 AND (?1 IS NULL OR name = ?1) AND (?2 IS NULL OR key = ?2)
ORDER BY name, key LIMIT ?3

-- name: gate
SELECT id, name, key, kind, in_use, debt, at, q, paused, closed_by, starts FROM gates WHERE id = ?1

-- name: lanes
-- Lanes with queued runs: how many, and their gates, if a turn has looked at them; else what to tell them by.
WITH line (lane, seq, n) AS MATERIALIZED (
    SELECT lane, min(seq), count(*) FROM (SELECT lane, seq FROM queue LIMIT ?1) GROUP BY lane LIMIT ?2
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
-- lines ("loader.lines") is looked at.
WITH RECURSIVE named (workflow) AS (
    SELECT (SELECT workflow FROM lanes WHERE gate = ?1 AND state = 2 ORDER BY workflow LIMIT 1)
    UNION ALL
    SELECT (SELECT l.workflow FROM lanes AS l
            WHERE l.gate = ?1 AND l.state = 2 AND l.workflow > named.workflow ORDER BY l.workflow LIMIT 1)
    FROM named WHERE named.workflow IS NOT NULL
),
line (workflow, stamp) AS (
    SELECT named.workflow, (SELECT l.wait_stamp FROM lanes AS l
                            WHERE l.gate = ?1 AND l.state = 2 AND l.workflow = named.workflow
                            ORDER BY l.wait_stamp LIMIT 1)
    FROM named WHERE named.workflow IS NOT NULL
    UNION ALL
    SELECT line.workflow, (SELECT l.wait_stamp FROM lanes AS l
                           WHERE l.gate = ?1 AND l.state = 2 AND l.workflow = line.workflow
                             AND l.wait_stamp > line.stamp
                           ORDER BY l.wait_stamp LIMIT 1)
    FROM line WHERE line.stamp IS NOT NULL
)
SELECT ?1, s.stamp
FROM line
JOIN lanes AS l ON l.id = (
    SELECT id FROM lanes AS m
    WHERE m.gate = ?1 AND m.state = 2 AND m.workflow = line.workflow AND m.wait_stamp = line.stamp
    ORDER BY m.priority, m.wait_vtime, m.wait_seq, m.id LIMIT 1
)
JOIN stamps AS s ON s.id = (SELECT stamp FROM queue WHERE lane = l.id ORDER BY resumed DESC, seq LIMIT 1)
ORDER BY l.priority, l.wait_vtime, l.wait_seq, l.id LIMIT 1
