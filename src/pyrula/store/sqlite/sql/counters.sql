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

-- name: stamp
-- That of a lane's first run.
SELECT ?1, s.stamp
FROM (SELECT stamp FROM queue WHERE lane = ?1 ORDER BY resumed DESC, seq LIMIT 1) AS q JOIN stamps AS s ON s.id = q.stamp
