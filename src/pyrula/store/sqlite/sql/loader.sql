-- name: lane
-- With where its queues begin (0: not known, and not needed here), and its unit, which whoever looks at a lane needs next.
SELECT l.id, l.unit, l.workflow, l.priority, l.gates, l.plan, l.state, l.gate, l.wait_vtime, l.wait_seq, l.wait_stamp,
       l.resumed, l.streak, 0, 0, u.vtime, u.ready
FROM lanes AS l LEFT JOIN units AS u ON u.id = l.unit WHERE l.id = ?1

-- name: unit
SELECT id, vtime, ready FROM units WHERE id = ?1

-- name: gate
SELECT id, name, key, kind, in_use, debt, at, q, paused, waiting, dirty, wake_at, heralds FROM gates WHERE id = ?1

-- name: dirty
-- A gate that is dirty and due as well comes once.
SELECT id, name, key, kind, in_use, debt, at, q, paused, waiting, dirty, wake_at, heralds FROM (
    SELECT * FROM (SELECT * FROM gates WHERE dirty = 1 LIMIT ?2)
    UNION
    SELECT * FROM (SELECT * FROM gates WHERE wake_at <= ?1 ORDER BY wake_at LIMIT ?2)
)
LIMIT ?2

-- name: ready
-- The next units of one workflow by priority and virtual time, each with its ready lane that is oldest.
SELECT l.id, l.unit, l.workflow, l.priority, l.gates, l.plan, l.state, l.gate, l.wait_vtime, l.wait_seq, l.wait_stamp,
       l.resumed, l.streak, 0, 0, u.vtime, u.ready
FROM (
    SELECT id, vtime, ready FROM units
    WHERE workflow = ?1 AND ready > 0 AND (priority, vtime, id) > (?2, ?3, ?4)
    ORDER BY priority, vtime, id LIMIT ?5
) AS u
JOIN lanes AS l ON l.id = (
    SELECT id FROM lanes WHERE unit = u.id AND state = 1 ORDER BY wait_seq, id LIMIT 1
)

-- name: siblings
SELECT id, unit, workflow, priority, gates, plan, state, gate, wait_vtime, wait_seq, wait_stamp, resumed, streak, 0, 0
FROM lanes
WHERE unit = ?1 AND state = 1 AND (wait_seq, id) > (?2, ?3)
ORDER BY wait_seq, id LIMIT ?4

-- name: few_waiting
-- All that wait at a gate, with their units, if they are few; ?2 rows say that more may.
SELECT l.id, l.unit, l.workflow, l.priority, l.gates, l.plan, l.state, l.gate, l.wait_vtime, l.wait_seq, l.wait_stamp,
       l.resumed, l.streak, 0, 0, coalesce(u.vtime, 0), coalesce(u.ready, 0)
FROM (SELECT * FROM lanes WHERE gate = ?1 AND state = 2 LIMIT ?2) AS l LEFT JOIN units AS u ON u.id = l.unit

-- name: lines
-- The distinct (workflow, stamp) of the lanes that wait at a gate, by skipping from each to the next. A comparison of
-- pairs would do in one step, but with columns of the recursion SQLite seeks by its first column only.
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
SELECT ?1, workflow, stamp FROM line WHERE stamp IS NOT NULL

-- name: waiting
SELECT l.id, l.unit, l.workflow, l.priority, l.gates, l.plan, l.state, l.gate, l.wait_vtime, l.wait_seq, l.wait_stamp,
       l.resumed, l.streak, 0, 0, coalesce(u.vtime, 0), coalesce(u.ready, 0)
FROM lanes AS l LEFT JOIN units AS u ON u.id = l.unit
WHERE l.gate = ?1 AND l.state = 2 AND l.workflow = ?2 AND l.wait_stamp = ?3
  AND (l.priority, l.wait_vtime, l.wait_seq, l.id) > (?4, ?5, ?6, ?7)
ORDER BY l.priority, l.wait_vtime, l.wait_seq, l.id LIMIT ?8

-- name: queue
SELECT lane, resumed, seq, stamp FROM queue WHERE lane = ?1 AND resumed = ?2 AND seq > ?3 ORDER BY seq LIMIT ?4

-- name: others
SELECT w.serves, w.facts, (SELECT count(*) FROM leases AS l WHERE l.worker = w.incarnation) FROM workers AS w
WHERE w.expires_at > ?1
