-- name: gates
-- A page of gates with how many queued runs each holds back: of each lane that waits there, up to 1,000.
WITH line (gate, lanes, runs) AS MATERIALIZED (
    SELECT gate, count(*), sum((SELECT count(*) FROM (SELECT 1 FROM queue WHERE lane = l.id LIMIT 1000) AS q))::bigint
    FROM lanes AS l WHERE state = 2 GROUP BY gate
)
SELECT g.id, g.name, g.key, g.kind, g.in_use, g.debt, g.at, g.q, g.paused, g.closed_by, g.starts,
       coalesce(line.runs, 0)
FROM gates AS g LEFT JOIN line ON line.gate = g.id
WHERE g.kind < 2 AND ($1::text IS NULL OR g.name = $1::text)
  AND ($2::text IS NULL OR strpos(lower(g.name), $2::text) > 0 OR strpos(lower(g.key), $2::text) > 0)
ORDER BY CASE $3::text WHEN 'queued' THEN coalesce(line.runs, 0) WHEN 'busy' THEN g.in_use ELSE 0 END DESC,
         CASE $3::text WHEN 'queued' THEN g.in_use ELSE 0 END DESC, g.name, g.key
LIMIT $4::bigint OFFSET $5::bigint

-- name: gates_by_name
-- The same in the order of the index, so that a page costs what is on it.
SELECT g.id, g.name, g.key, g.kind, g.in_use, g.debt, g.at, g.q, g.paused, g.closed_by, g.starts,
       (SELECT coalesce(sum((SELECT count(*) FROM (SELECT 1 FROM queue WHERE lane = l.id LIMIT 1000) AS q))::bigint, 0)
        FROM (SELECT id FROM lanes WHERE gate = g.id AND state = 2 LIMIT 1000) AS l)
FROM (
    SELECT * FROM gate_names WHERE $1::text IS NULL OR name = $1::text
    ORDER BY name, key LIMIT $2::bigint OFFSET $3::bigint
) AS n
JOIN gates AS g ON g.id = n.id
ORDER BY n.name, n.key

-- name: gate
SELECT g.id, g.name, g.key, g.kind, g.in_use, g.debt, g.at, g.q, g.paused, g.closed_by, g.starts,
       (SELECT coalesce(sum((SELECT count(*) FROM (SELECT 1 FROM queue WHERE lane = l.id LIMIT 1000) AS q))::bigint, 0)
        FROM (SELECT id FROM lanes WHERE gate = g.id AND state = 2 LIMIT 1000) AS l)
FROM gate_names AS n JOIN gates AS g ON g.id = n.id
WHERE n.name = $1::text AND n.key = $2::text

-- name: ids
SELECT id FROM gate_names WHERE name = $1::text AND key = $2::text

-- name: waiters
-- The lanes that wait at a gate in the order of their heads, then the runs of each: enough of both for a page.
SELECT r.run_id, r.workflow, r.priority, r.submitted_at, r.wall_submitted
FROM (
    SELECT l.id, l.priority, l.wait_vtime, l.wait_seq
    FROM gate_names AS n JOIN lanes AS l ON l.gate = n.id AND l.state = 2
    WHERE n.name = $1::text AND n.key = $2::text
    ORDER BY l.priority, l.wait_vtime, l.wait_seq LIMIT $3::bigint
) AS l
JOIN queue AS q ON q.lane = l.id
 AND q.seq IN (SELECT seq FROM queue WHERE lane = l.id ORDER BY resumed DESC, seq LIMIT $3::bigint)
JOIN runs AS r ON r.seq = q.seq
ORDER BY l.priority, q.resumed DESC, q.seq LIMIT $3::bigint

-- name: executing
SELECT r.workflow, count(*) FROM leases AS l JOIN runs AS r ON r.seq = l.seq GROUP BY r.workflow

-- name: parked
SELECT parked, count(*) FROM runs WHERE parked IS NOT NULL GROUP BY parked

-- name: queued
SELECT count(*) FROM (SELECT 1 FROM queue LIMIT $1::bigint) AS q

-- name: waiting
-- What queued runs wait for, by workflow and gate, with the oldest of the heads.
SELECT x.workflow, g.name, g.kind, count(*), sum(x.keys)::bigint, sum(x.runs)::bigint, min(x.head)
FROM (
    SELECT l.gate, l.workflow, 1 AS keys, min(l.wait_seq) AS head,
           sum((SELECT count(*) FROM (SELECT 1 FROM queue WHERE lane = l.id LIMIT 1000) AS q))::bigint AS runs
    FROM lanes AS l WHERE l.state = 2 GROUP BY l.gate, l.workflow
) AS x
JOIN gates AS g ON g.id = x.gate
GROUP BY x.workflow, g.name, g.kind ORDER BY sum(x.runs) DESC LIMIT 200

-- name: ready
-- Queued runs of lanes that could go on: they wait for a worker with room.
SELECT l.workflow, count(*), sum((SELECT count(*) FROM (SELECT 1 FROM queue WHERE lane = l.id LIMIT 1000) AS q))::bigint,
       min(l.wait_seq)
FROM lanes AS l WHERE l.state = 1 GROUP BY l.workflow

-- name: submitted_at
SELECT submitted_at, wall_submitted FROM runs WHERE seq = $1::bigint

-- name: buffered
SELECT workflow, count(*), sum(count)::bigint, min(due) FROM buffers GROUP BY workflow ORDER BY workflow

-- name: buffers
SELECT workflow, text, count, bytes, opened_at, due, stamped FROM buffers
WHERE ($1::text IS NULL OR workflow = $1::text) AND ($2::text IS NULL OR strpos(lower(text), $2::text) > 0)
ORDER BY due, id LIMIT $3::bigint OFFSET $4::bigint

-- name: finished
SELECT count(*) FROM runs WHERE finished_at >= $1::bigint AND finished_at < $2::bigint

-- name: ended_otherwise
SELECT count(*) FROM runs
WHERE state IN ('failed', 'cancelled', 'expired') AND finished_at >= $1::bigint AND finished_at < $2::bigint

-- name: steps
SELECT s.branch, s.number, s.kind, s.name, s.status, s.value, s.due, s.settled, s.at, r.submitted_at, r.wall_submitted
FROM runs AS r JOIN steps AS s ON s.seq = r.seq
WHERE r.run_id = $1::text ORDER BY s.at, s.settled = 0, s.settled, s.branch, s.number LIMIT $2::bigint

-- name: children
SELECT r.run_id, r.workflow,
       CASE WHEN r.state <> 'open' THEN r.state
            WHEN EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq) THEN 'executing'
            WHEN r.parked IN ('wait', 'retry', 'aside') THEN 'parked'
            ELSE 'queued' END,
       r.submitted_at, r.wall_submitted, r.started_at, r.finished_at
FROM runs AS r WHERE r.parent = $1::text ORDER BY r.seq LIMIT $2::bigint

-- name: parent
SELECT parent FROM runs WHERE run_id = $1::text

-- name: overrides
SELECT gate, every, key, kind, number, expires_at FROM overrides
WHERE expires_at IS NULL OR expires_at > $1::bigint ORDER BY gate, every DESC, key, kind LIMIT 1000

-- name: definitions
SELECT workflow, declaration, code, at FROM definitions ORDER BY workflow

-- name: served
SELECT DISTINCT serves FROM workers WHERE expires_at > $1::bigint
