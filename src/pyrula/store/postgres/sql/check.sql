-- name: in_use
-- A lease names the gates of its slots; those that runs keep while parked, and their families share, are noted.
WITH inside (gate, seq) AS (
    SELECT substring(l.slots FROM 16 * n + 1 FOR 16), l.seq
    FROM leases AS l CROSS JOIN LATERAL generate_series(0, length(l.slots) / 16 - 1) AS n WHERE l.held = 0
    UNION ALL
    SELECT gate, seq FROM slots
)
SELECT g.name, g.key, g.in_use, coalesce(i.n, 0)
FROM gates AS g LEFT JOIN (SELECT gate, count(*) AS n FROM inside GROUP BY gate) AS i ON i.gate = g.id
WHERE g.kind <> 1 AND g.in_use <> coalesce(i.n, 0) LIMIT $1::bigint

-- name: orphan_slots
WITH inside (gate, seq) AS (
    SELECT substring(l.slots FROM 16 * n + 1 FOR 16), l.seq
    FROM leases AS l CROSS JOIN LATERAL generate_series(0, length(l.slots) / 16 - 1) AS n WHERE l.held = 0
    UNION ALL
    SELECT gate, seq FROM slots
)
SELECT i.gate, i.seq FROM inside AS i LEFT JOIN gates AS g ON g.id = i.gate WHERE g.id IS NULL LIMIT $1::bigint

-- name: idle_slots
-- Only a held slot stays with a run that doesn't execute, and only until its end.
SELECT g.name, g.key, coalesce(r.run_id, ''), coalesce(r.state, 'gone'), r.parked
FROM slots AS s
JOIN gates AS g ON g.id = s.gate
LEFT JOIN runs AS r ON r.seq = s.seq
WHERE NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = s.seq) AND (s.held = 0 OR r.state IS DISTINCT FROM 'open')
LIMIT $1::bigint

-- name: leases
SELECT run_id, state, parked, queued, worker FROM (
    SELECT coalesce(r.run_id, '') AS run_id, coalesce(r.state, 'gone') AS state, r.parked,
           EXISTS (SELECT 1 FROM queue AS q WHERE q.lane = r.lane AND q.resumed IN (0, 1) AND q.seq = l.seq) AS queued,
           w.incarnation AS worker
    FROM leases AS l
    LEFT JOIN runs AS r ON r.seq = l.seq
    LEFT JOIN workers AS w ON w.incarnation = l.worker
) AS l
WHERE state <> 'open' OR parked IS NOT NULL OR queued OR worker IS NULL
LIMIT $1::bigint

-- name: gated
-- Slots are noted of those whose family shares them or that keep them while parked, all that they took, and of no others.
SELECT run_id, gated, slots FROM (
    SELECT r.run_id, length(l.slots) / 16 AS gated, l.held, (SELECT count(*) FROM slots AS s WHERE s.seq = l.seq) AS slots
    FROM leases AS l JOIN runs AS r ON r.seq = l.seq
) AS l
WHERE (held = 1 AND gated > slots) OR (held = 0 AND slots > 0) LIMIT $1::bigint

-- name: queue
SELECT q.seq, r.run_id, r.state, r.parked, r.lane <> q.lane OR r.stamp <> q.stamp
FROM queue AS q LEFT JOIN runs AS r ON r.seq = q.seq
WHERE r.seq IS NULL OR r.state <> 'open' OR r.parked IS NOT NULL OR r.lane <> q.lane OR r.stamp <> q.stamp
   OR EXISTS (SELECT 1 FROM queue AS x WHERE x.lane = q.lane AND x.resumed > q.resumed AND x.seq = q.seq)
LIMIT $1::bigint

-- name: lost
SELECT r.run_id FROM runs AS r
WHERE r.state = 'open' AND r.parked IS NULL
  AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq)
  AND NOT EXISTS (SELECT 1 FROM queue AS q WHERE q.lane = r.lane AND q.resumed IN (0, 1) AND q.seq = r.seq)
LIMIT $1::bigint

-- name: lanes
SELECT id, state, queued FROM (
    SELECT l.id, l.state, EXISTS (SELECT 1 FROM queue AS q WHERE q.lane = l.id) AS queued FROM lanes AS l
) AS l
WHERE (state > 0) <> queued AND NOT EXISTS (SELECT 1 FROM inbox AS i WHERE i.lane = l.id) LIMIT $1::bigint

-- name: unknown_lanes
SELECT q.lane, count(*) FROM queue AS q
WHERE NOT EXISTS (SELECT 1 FROM lanes AS l WHERE l.id = q.lane)
  AND NOT EXISTS (SELECT 1 FROM inbox AS i WHERE i.lane = q.lane)
GROUP BY q.lane LIMIT $1::bigint

-- name: waiting
SELECT name, key, waiting, lanes FROM (
    SELECT g.name, g.key, g.waiting, (SELECT count(*) FROM lanes AS l WHERE l.gate = g.id AND l.state = 2) AS lanes
    FROM gates AS g
) AS g
WHERE waiting <> lanes LIMIT $1::bigint

-- name: asleep
SELECT name, key, waiting, paused FROM gates
WHERE kind = 1 AND waiting > 0 AND dirty = 0 AND wake_at IS NULL AND (heralds = '{}' OR heralds LIKE '{"@%') LIMIT $1::bigint

-- name: units
SELECT id, workflow, ready, lanes FROM (
    SELECT u.id, u.workflow, u.ready, (SELECT count(*) FROM lanes AS l WHERE l.unit = u.id AND l.state = 1) AS lanes
    FROM units AS u WHERE u.workflow <> ''
) AS u
WHERE ready <> lanes LIMIT $1::bigint

-- name: named
WITH cut AS (
    SELECT l.id AS lane, substring(l.gates FROM 16 * i.at + 1 FOR 16) AS gate, substring(l.plan FROM i.at + 1 FOR 1) AS number
    FROM lanes AS l CROSS JOIN LATERAL generate_series(0, length(l.gates) / 16 - 1) AS i (at)
)
SELECT g.name, g.key, g.lanes, coalesce(n.n, 0)
FROM gates AS g LEFT JOIN (SELECT gate, count(*) AS n FROM cut GROUP BY gate) AS n ON n.gate = g.id
WHERE g.lanes <> coalesce(n.n, 0) LIMIT $1::bigint

-- name: gone_gates
-- Slot gates went before their lanes once: those lanes stand empty.
WITH cut AS (
    SELECT l.id AS lane, substring(l.gates FROM 16 * i.at + 1 FOR 16) AS gate, substring(l.plan FROM i.at + 1 FOR 1) AS number
    FROM lanes AS l CROSS JOIN LATERAL generate_series(0, length(l.gates) / 16 - 1) AS i (at)
)
SELECT c.lane, c.gate FROM cut AS c LEFT JOIN gates AS g ON g.id = c.gate
WHERE g.id IS NULL AND c.number <> decode('ff', 'hex') LIMIT $1::bigint

-- name: kept_gates
SELECT g.name, g.key FROM gates AS g
WHERE g.lanes = 0 AND g.kind < 2 AND g.key <> '' AND g.id NOT IN (SELECT id FROM unused) LIMIT $1::bigint

-- name: kept_units
SELECT u.id, u.workflow FROM units AS u
WHERE u.workflow <> '' AND u.id NOT IN (SELECT unit FROM lanes) AND u.id NOT IN (SELECT id FROM unused) LIMIT $1::bigint

-- name: unlisted_gates
-- Differs: there is a list of its own.
SELECT coalesce(g.name, n.name), coalesce(g.key, n.key), g.id IS NOT NULL
FROM (SELECT * FROM gates WHERE kind < 2) AS g
FULL JOIN gate_names AS n ON n.name = g.name AND n.key = g.key AND n.id = g.id AND n.kind = g.kind
WHERE g.id IS NULL OR n.id IS NULL LIMIT $1::bigint

-- name: unlisted_runs
-- Differs: likewise.
SELECT r.run_id, k.seq
FROM (SELECT * FROM runs WHERE key <> '') AS r FULL JOIN run_keys AS k ON k.key = r.key AND k.seq = r.seq
WHERE r.seq IS NULL OR k.seq IS NULL LIMIT $1::bigint

-- name: buffers
-- An event counts with the comma behind it.
SELECT workflow, text, count, bytes, events, total FROM (
    SELECT b.workflow, b.text, b.count, b.bytes,
           (SELECT count(*) FROM buffered_events AS e WHERE e.buffer = b.id) AS events,
           (SELECT coalesce(sum(length(e.payload) + 1), 0)::bigint FROM buffered_events AS e WHERE e.buffer = b.id) AS total
    FROM buffers AS b
) AS b
WHERE count <> events OR bytes <> total OR count = 0 LIMIT $1::bigint

-- name: stray_events
SELECT e.buffer, count(*) FROM buffered_events AS e
WHERE NOT EXISTS (SELECT 1 FROM buffers AS b WHERE b.id = e.buffer) GROUP BY e.buffer LIMIT $1::bigint

-- name: timers
SELECT r.run_id, r.parked FROM runs AS r
WHERE r.parked IN ('delay', 'retry', 'later') AND r.state = 'open'
  AND NOT EXISTS (SELECT 1 FROM timers AS t WHERE t.seq = r.seq AND t.kind = 0)
  AND NOT EXISTS (SELECT 1 FROM wall_timers AS t WHERE t.seq = r.seq)
  AND NOT EXISTS (SELECT 1 FROM arrivals AS t WHERE t.seq = r.seq)
LIMIT $1::bigint

-- name: waits
SELECT r.run_id, s.name, s.due FROM steps AS s JOIN runs AS r ON r.seq = s.seq
WHERE s.status = 'waiting' AND s.due IS NOT NULL AND r.state = 'open' AND r.parked = 'wait'
  AND NOT EXISTS (SELECT 1 FROM timers AS t WHERE t.seq = s.seq AND t.due = s.due AND t.kind = 1)
LIMIT $1::bigint

-- name: nothing
SELECT r.run_id FROM runs AS r
WHERE r.parked = 'wait' AND r.state = 'open'
  AND NOT EXISTS (SELECT 1 FROM steps AS s WHERE s.seq = r.seq AND s.status = 'waiting')
LIMIT $1::bigint

-- name: unheard
-- What a run waits for is settled in the transaction in which it comes.
SELECT r.run_id, s.kind, c.run_id FROM steps AS s JOIN runs AS r ON r.seq = s.seq JOIN runs AS c ON c.run_id = convert_from(s.value, 'UTF8')
WHERE s.status = 'waiting' AND s.kind = 'child' AND r.state = 'open' AND c.state <> 'open'
UNION ALL
SELECT r.run_id, s.kind, a.child FROM steps AS s JOIN runs AS r ON r.seq = s.seq
JOIN away AS a ON a.parent = r.run_id AND a.child = convert_from(s.value, 'UTF8')
WHERE s.status = 'waiting' AND s.kind = 'child' AND r.state = 'open' AND a.state IS NOT NULL
UNION ALL
SELECT r.run_id, s.kind, s.name FROM steps AS s JOIN runs AS r ON r.seq = s.seq
WHERE s.status = 'waiting' AND s.kind = 'event' AND r.state = 'open'
  AND EXISTS (SELECT 1 FROM events AS e WHERE e.seq = s.seq AND e.name = s.name)
LIMIT $1::bigint

-- name: logs
SELECT run_id, logged, last FROM (
    SELECT r.run_id, r.logged, (SELECT max(s.settled) FROM steps AS s WHERE s.seq = r.seq) AS last
    FROM runs AS r WHERE r.logged > 0
) AS r
WHERE last > logged LIMIT $1::bigint
