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

-- name: stamp
-- That of a lane's first run.
SELECT u.lane, s.stamp
FROM unnest($1::bytea[]) AS u (lane)
CROSS JOIN LATERAL (
    SELECT q.stamp FROM queue AS q WHERE q.lane = u.lane ORDER BY q.resumed DESC, q.seq LIMIT 1
) AS q
JOIN stamps AS s ON s.id = q.stamp
