-- name: lane
SELECT id, unit, workflow, priority, gates, plan, state, gate, wait_vtime, wait_seq, wait_stamp, resumed, streak
FROM lanes WHERE id = ?1

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
       l.resumed, l.streak, u.vtime, u.ready
FROM (
    SELECT id, vtime, ready FROM units
    WHERE workflow = ?1 AND ready > 0 AND (priority, vtime, id) > (?2, ?3, ?4)
    ORDER BY priority, vtime, id LIMIT ?5
) AS u
JOIN lanes AS l ON l.id = (
    SELECT id FROM lanes WHERE unit = u.id AND state = 1 ORDER BY wait_seq, id LIMIT 1
)

-- name: siblings
SELECT id, unit, workflow, priority, gates, plan, state, gate, wait_vtime, wait_seq, wait_stamp, resumed, streak
FROM lanes
WHERE unit = ?1 AND state = 1 AND (wait_seq, id) > (?2, ?3)
ORDER BY wait_seq, id LIMIT ?4

-- name: lines
-- The distinct (workflow, stamp) of the lanes that wait at a gate, by skipping from each to the next.
WITH RECURSIVE line (workflow, stamp) AS (
    SELECT * FROM (
        SELECT workflow, wait_stamp FROM lanes WHERE gate = ?1 AND state = 2 ORDER BY workflow, wait_stamp LIMIT 1
    )
    UNION ALL
    SELECT (SELECT l.workflow FROM lanes AS l
            WHERE l.gate = ?1 AND l.state = 2 AND (l.workflow, l.wait_stamp) > (line.workflow, line.stamp)
            ORDER BY l.workflow, l.wait_stamp LIMIT 1),
           (SELECT l.wait_stamp FROM lanes AS l
            WHERE l.gate = ?1 AND l.state = 2 AND (l.workflow, l.wait_stamp) > (line.workflow, line.stamp)
            ORDER BY l.workflow, l.wait_stamp LIMIT 1)
    FROM line WHERE line.workflow IS NOT NULL
)
SELECT ?1, workflow, stamp FROM line WHERE workflow IS NOT NULL

-- name: waiting
SELECT l.id, l.unit, l.workflow, l.priority, l.gates, l.plan, l.state, l.gate, l.wait_vtime, l.wait_seq, l.wait_stamp,
       l.resumed, l.streak, coalesce(u.vtime, 0), coalesce(u.ready, 0)
FROM (
    SELECT * FROM lanes
    WHERE gate = ?1 AND state = 2 AND workflow = ?2 AND wait_stamp = ?3
      AND (priority, wait_vtime, wait_seq, id) > (?4, ?5, ?6, ?7)
    ORDER BY priority, wait_vtime, wait_seq, id LIMIT ?8
) AS l
LEFT JOIN units AS u ON u.id = l.unit
ORDER BY l.priority, l.wait_vtime, l.wait_seq, l.id

-- name: queue
SELECT lane, resumed, seq, stamp FROM queue WHERE lane = ?1 AND resumed = ?2 AND seq > ?3 ORDER BY seq LIMIT ?4
