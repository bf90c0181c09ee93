-- name: gates
-- A page of gates with how many queued runs each holds back: of each lane that waits there, up to 1,000.
WITH line (gate, lanes, runs) AS MATERIALIZED (
    SELECT gate, count(*), sum((SELECT count(*) FROM (SELECT 1 FROM queue WHERE lane = l.id LIMIT 1000)))
    FROM lanes AS l INDEXED BY lanes_waiting WHERE state = 2 GROUP BY gate
)
SELECT g.id, g.name, g.key, g.kind, g.in_use, g.debt, g.at, g.q, g.paused, g.closed_by, g.starts,
       coalesce(line.runs, 0)
FROM gates AS g LEFT JOIN line ON line.gate = g.id
WHERE g.kind < 2 AND (?1 IS NULL OR g.name = ?1)
  AND (?2 IS NULL OR instr(lower(g.name), ?2) > 0 OR instr(lower(g.key), ?2) > 0)
ORDER BY CASE ?3 WHEN 'queued' THEN coalesce(line.runs, 0) WHEN 'busy' THEN g.in_use ELSE 0 END DESC,
         CASE ?3 WHEN 'queued' THEN g.in_use ELSE 0 END DESC, g.name, g.key
LIMIT ?4 OFFSET ?5

-- name: gates_by_name
-- The same in the order of the index, so that a page costs what is on it.
SELECT g.id, g.name, g.key, g.kind, g.in_use, g.debt, g.at, g.q, g.paused, g.closed_by, g.starts,
       (SELECT coalesce(sum((SELECT count(*) FROM (SELECT 1 FROM queue WHERE lane = l.id LIMIT 1000))), 0)
        FROM (SELECT id FROM lanes WHERE gate = g.id AND state = 2 LIMIT 1000) AS l)
FROM gates AS g
WHERE g.kind < 2 AND g.name BETWEEN coalesce(?1, '') AND coalesce(?1, char(1114111))
ORDER BY g.name, g.key LIMIT ?2 OFFSET ?3

-- name: gate
SELECT g.id, g.name, g.key, g.kind, g.in_use, g.debt, g.at, g.q, g.paused, g.closed_by, g.starts,
       (SELECT coalesce(sum((SELECT count(*) FROM (SELECT 1 FROM queue WHERE lane = l.id LIMIT 1000))), 0)
        FROM (SELECT id FROM lanes WHERE gate = g.id AND state = 2 LIMIT 1000) AS l)
FROM gates AS g
WHERE g.kind < 2 AND g.name = ?1 AND g.key = ?2

-- name: ids
SELECT id FROM gates WHERE name = ?1 AND key = ?2 AND kind < 2

-- name: waiters
-- The lanes that wait at a gate in the order of their heads, then the runs of each: enough of both for a page.
SELECT r.run_id, r.workflow, r.priority, r.submitted_at, r.wall_submitted
FROM (
    SELECT l.id, l.priority, l.wait_vtime, l.wait_seq
    FROM gates AS g JOIN lanes AS l ON l.gate = g.id AND l.state = 2
    WHERE g.name = ?1 AND g.key = ?2 AND g.kind < 2
    ORDER BY l.priority, l.wait_vtime, l.wait_seq LIMIT ?3
) AS l
JOIN queue AS q ON q.lane = l.id
 AND q.seq IN (SELECT seq FROM queue WHERE lane = l.id ORDER BY resumed DESC, seq LIMIT ?3)
JOIN runs AS r ON r.seq = q.seq
ORDER BY l.priority, q.resumed DESC, q.seq LIMIT ?3

-- name: executing
-- CROSS: from the few leases to their runs, whatever the planner thinks of grouping by an index of all runs.
SELECT r.workflow, count(*) FROM leases AS l CROSS JOIN runs AS r ON r.seq = l.seq GROUP BY r.workflow

-- name: parked
SELECT parked, count(*) FROM runs WHERE parked IS NOT NULL GROUP BY parked

-- name: queued
SELECT count(*) FROM (SELECT 1 FROM queue LIMIT ?1)

-- name: waiting
-- What queued runs wait for, by workflow and gate, with the oldest of the heads.
SELECT x.workflow, g.name, g.kind, count(*), sum(x.keys), sum(x.runs), min(x.head)
FROM (
    SELECT l.gate, l.workflow, 1 AS keys, min(l.wait_seq) AS head,
           sum((SELECT count(*) FROM (SELECT 1 FROM queue WHERE lane = l.id LIMIT 1000))) AS runs
    FROM lanes AS l INDEXED BY lanes_waiting WHERE l.state = 2 GROUP BY l.gate, l.workflow
) AS x
JOIN gates AS g ON g.id = x.gate
GROUP BY x.workflow, g.name, g.kind ORDER BY sum(x.runs) DESC LIMIT 200

-- name: ready
-- Queued runs of lanes that could go on: they wait for a worker with room.
SELECT l.workflow, count(*), sum((SELECT count(*) FROM (SELECT 1 FROM queue WHERE lane = l.id LIMIT 1000))),
       min(l.wait_seq)
FROM lanes AS l INDEXED BY lanes_ready WHERE l.state = 1 GROUP BY l.workflow

-- name: submitted_at
SELECT submitted_at, wall_submitted FROM runs WHERE seq = ?1

-- name: buffered
SELECT workflow, count(*), sum(count), min(due) FROM buffers GROUP BY workflow ORDER BY workflow

-- name: buffers
SELECT workflow, text, count, bytes, opened_at, due, stamped FROM buffers
WHERE (?1 IS NULL OR workflow = ?1) AND (?2 IS NULL OR instr(lower(text), ?2) > 0)
ORDER BY due, id LIMIT ?3 OFFSET ?4

-- name: finished
SELECT count(*) FROM runs WHERE finished_at >= ?1 AND finished_at < ?2

-- name: ended_otherwise
SELECT count(*) FROM runs INDEXED BY runs_ended_otherwise
WHERE state <> 'open' AND state <> 'completed' AND finished_at >= ?1 AND finished_at < ?2

-- name: steps
SELECT s.branch, s.number, s.kind, s.name, s.status, s.value, s.due, s.settled, s.at, r.submitted_at, r.wall_submitted
FROM runs AS r JOIN steps AS s ON s.seq = r.seq
WHERE r.run_id = ?1 ORDER BY s.at, s.settled = 0, s.settled, s.branch, s.number LIMIT ?2

-- name: children
SELECT r.run_id, r.workflow,
       CASE WHEN r.state <> 'open' THEN r.state
            WHEN EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq) THEN 'executing'
            WHEN r.parked IN ('wait', 'retry', 'aside') THEN 'parked'
            ELSE 'queued' END,
       r.submitted_at, r.wall_submitted, r.started_at, r.finished_at
FROM runs AS r WHERE r.parent = ?1 ORDER BY r.seq LIMIT ?2

-- name: parent
SELECT parent FROM runs WHERE run_id = ?1

-- name: overrides
SELECT gate, every, key, kind, number, expires_at FROM overrides
WHERE expires_at IS NULL OR expires_at > ?1 ORDER BY gate, every DESC, key, kind LIMIT 1000

-- name: definitions
SELECT workflow, declaration, code, at FROM definitions ORDER BY workflow

-- name: served
SELECT DISTINCT serves FROM workers WHERE expires_at > ?1
