-- name: lane
-- With where its queues begin, and its unit, which whoever looks at a lane needs next.
SELECT l.id, l.unit, l.workflow, l.priority, l.gates, l.plan, l.state, l.gate, l.wait_vtime, l.wait_seq, l.wait_stamp,
       l.resumed, l.streak, l.low, l.low_resumed, x.vtime, x.ready
FROM unnest($1::bytea[]) AS u (id)
CROSS JOIN LATERAL (SELECT * FROM lanes AS y WHERE y.id = u.id ORDER BY y.v DESC LIMIT 1) AS l
LEFT JOIN LATERAL (SELECT y.vtime, y.ready FROM units AS y WHERE y.id = l.unit ORDER BY y.v DESC LIMIT 1) AS x ON true

-- name: unit
SELECT x.id, x.vtime, x.ready
FROM unnest($1::bytea[]) AS u (id)
CROSS JOIN LATERAL (SELECT * FROM units AS y WHERE y.id = u.id ORDER BY y.v DESC LIMIT 1) AS x

-- name: gate
SELECT g.id, g.name, g.key, g.kind, g.in_use, g.debt, g.at, g.q, g.paused, g.waiting, g.dirty, g.wake_at, g.heralds
FROM unnest($1::bytea[]) AS u (id)
CROSS JOIN LATERAL (SELECT * FROM gates AS x WHERE x.id = u.id ORDER BY x.v DESC LIMIT 1) AS g

-- name: dirty
-- A gate that is dirty and due as well comes once.
SELECT id, name, key, kind, in_use, debt, at, q, paused, waiting, dirty, wake_at, heralds FROM (
    (SELECT * FROM gates
     WHERE dirty > 0 AND dirty >= (SELECT dirty FROM clock ORDER BY number DESC LIMIT 1) ORDER BY dirty LIMIT $2::bigint)
    UNION
    (SELECT * FROM gates
     WHERE wake_at >= (SELECT wakes FROM clock ORDER BY number DESC LIMIT 1) AND wake_at <= $1::bigint
     ORDER BY wake_at LIMIT $2::bigint)
) AS g
LIMIT $2::bigint

-- name: ready
-- The next units of one workflow by priority and virtual time, each with its ready lane that is oldest.
SELECT l.id, l.unit, l.workflow, l.priority, l.gates, l.plan, l.state, l.gate, l.wait_vtime, l.wait_seq, l.wait_stamp,
       l.resumed, l.streak, l.low, l.low_resumed, x.vtime, x.ready
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bigint[]) AS u (workflow, priority, vtime, id, n)
CROSS JOIN LATERAL (
    SELECT y.* FROM generate_series(greatest(u.priority, 1), 5) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT x.vtime FROM fronts AS x WHERE x.workflow = u.workflow AND x.priority = p.priority
        ORDER BY x.v DESC LIMIT 1
    ) AS f
    CROSS JOIN LATERAL (
        SELECT z.id, z.priority, z.vtime, z.ready, z.low FROM units AS z
        WHERE z.workflow = u.workflow AND z.priority = p.priority AND z.ready > 0 AND z.vtime >= f.vtime
          AND (z.priority, z.vtime, z.id) > (u.priority, u.vtime, u.id)
        ORDER BY z.vtime, z.id LIMIT u.n
    ) AS y
    ORDER BY y.priority, y.vtime, y.id LIMIT u.n
) AS x
CROSS JOIN LATERAL (
    SELECT * FROM lanes AS m WHERE m.unit = x.id AND m.state = 1 AND m.wait_seq >= x.low ORDER BY m.wait_seq, m.id LIMIT 1
) AS l

-- name: siblings
SELECT id, unit, workflow, priority, gates, plan, state, gate, wait_vtime, wait_seq, wait_stamp, resumed, streak,
       low, low_resumed
FROM lanes
WHERE unit = $1::bytea AND state = 1 AND (wait_seq, id) > ($2::bigint, $3::bytea)
  AND wait_seq >= (SELECT low FROM units WHERE id = $1::bytea ORDER BY v DESC LIMIT 1)
ORDER BY wait_seq, id LIMIT $4::bigint

-- name: few_waiting
-- All that wait at a gate, with their units, if they are few; $2 rows say that more may.
SELECT l.id, l.unit, l.workflow, l.priority, l.gates, l.plan, l.state, l.gate, l.wait_vtime, l.wait_seq, l.wait_stamp,
       l.resumed, l.streak, l.low, l.low_resumed, coalesce(x.vtime, 0), coalesce(x.ready, 0)
FROM unnest($1::bytea[], $2::bigint[]) AS u (gate, n)
CROSS JOIN LATERAL (SELECT g.low_vtime, g.low_seq FROM gates AS g WHERE g.id = u.gate ORDER BY g.v DESC LIMIT 1) AS g
CROSS JOIN LATERAL (
    SELECT * FROM lanes AS m
    WHERE m.gate = u.gate AND m.state = 2 AND (m.wait_vtime, m.wait_seq) >= (g.low_vtime, g.low_seq)
    ORDER BY m.wait_vtime, m.wait_seq LIMIT u.n
) AS l
LEFT JOIN LATERAL (SELECT y.vtime, y.ready FROM units AS y WHERE y.id = l.unit ORDER BY y.v DESC LIMIT 1) AS x ON true

-- name: lines
-- The distinct (workflow, stamp) of the lanes that wait at a gate, by skipping from each to the next. Differs: backwards,
-- for a line is left at its front, so that its end is where the living are.
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
SELECT gate, workflow, wait_stamp FROM line

-- name: waiting
SELECT l.id, l.unit, l.workflow, l.priority, l.gates, l.plan, l.state, l.gate, l.wait_vtime, l.wait_seq, l.wait_stamp,
       l.resumed, l.streak, l.low, l.low_resumed, coalesce(x.vtime, 0), coalesce(x.ready, 0)
FROM unnest($1::bytea[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bytea[], $8::bigint[])
  WITH ORDINALITY AS u (gate, workflow, wait_stamp, priority, wait_vtime, wait_seq, id, n, ask)
CROSS JOIN LATERAL (SELECT g.low_vtime, g.low_seq FROM gates AS g WHERE g.id = u.gate ORDER BY g.v DESC LIMIT 1) AS g
CROSS JOIN LATERAL (
    SELECT k.* FROM generate_series(greatest(u.priority, 1), 5) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT * FROM lanes AS m
        WHERE m.gate = u.gate AND m.state = 2 AND m.workflow = u.workflow AND m.wait_stamp = u.wait_stamp
          AND m.priority = p.priority AND (m.wait_vtime, m.wait_seq) >= (g.low_vtime, g.low_seq)
          AND (m.priority, m.wait_vtime, m.wait_seq, m.id) > (u.priority, u.wait_vtime, u.wait_seq, u.id)
        ORDER BY m.wait_vtime, m.wait_seq, m.id LIMIT u.n
    ) AS k
    ORDER BY k.priority, k.wait_vtime, k.wait_seq, k.id LIMIT u.n
) AS l
LEFT JOIN LATERAL (SELECT y.vtime, y.ready FROM units AS y WHERE y.id = l.unit ORDER BY y.v DESC LIMIT 1) AS x ON true
ORDER BY u.ask, l.priority, l.wait_vtime, l.wait_seq, l.id

-- name: queue
SELECT q.lane, q.resumed, q.seq, q.stamp
FROM unnest($1::bytea[], $2::integer[], $3::bigint[], $4::bigint[]) AS u (lane, resumed, after, n)
CROSS JOIN LATERAL (
    SELECT p.lane, p.resumed, p.seq, p.stamp FROM queue AS p
    WHERE p.lane = u.lane AND p.resumed = u.resumed AND p.seq > u.after
    ORDER BY p.seq LIMIT u.n
) AS q
ORDER BY q.seq

-- name: others
SELECT w.serves, w.facts, (SELECT count(*) FROM leases AS l WHERE l.worker = w.incarnation) FROM workers AS w
WHERE w.expires_at > $1::bigint
