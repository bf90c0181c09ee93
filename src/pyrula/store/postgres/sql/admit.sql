-- name: meta
SELECT turn, vtime FROM passes ORDER BY turn DESC LIMIT 1

-- name: turn
-- Differs: a row of its own for each.
INSERT INTO passes (turn, vtime) VALUES ($1::bigint, $2::bigint)

-- name: serves
SELECT serves FROM workers WHERE incarnation = $1::text

-- name: stamp
SELECT stamp FROM stamps WHERE id = $1::bytea

-- name: bells
-- Differs: takes out what was appended since the remembered transaction, in that order, up to $2 lanes, each once; what it
-- leaves lies behind all that it took, where the next turn begins. $1: ids are no order here. A run that comes in before
-- the known front of its lane (its transaction committed late, or it comes back) lowers the front, and its lane's head is
-- looked at; a lane's begins are answered as they are then.
WITH waiting AS MATERIALIZED (
         SELECT i.ctid AS at, i.lane, row_number() OVER (ORDER BY i.xid, i.id) AS n FROM inbox AS i
         WHERE i.xid >= (SELECT inbox FROM clock ORDER BY number DESC LIMIT 1) AND $1::bytea IS NOT NULL
         ORDER BY i.xid, i.id LIMIT 20000),
     rung AS (
         DELETE FROM inbox WHERE ctid = ANY(ARRAY(
             SELECT w.at FROM waiting AS w
             WHERE (SELECT count(*) FROM waiting) <= $2::bigint OR w.n < coalesce((
                 SELECT min(n) FROM waiting GROUP BY lane ORDER BY 1 OFFSET $2::bigint LIMIT 1), 20001)))
         RETURNING lane, look, seq, seq_resumed),
     chosen AS (
         SELECT lane, max(look) AS look, min(seq) AS seq, min(seq_resumed) AS seq_resumed FROM rung GROUP BY lane),
     found AS (
         SELECT c.*, l.v, l.low, l.low_resumed, l.state, l.wait_seq
         FROM chosen AS c
         LEFT JOIN LATERAL (SELECT * FROM lanes AS x WHERE x.id = c.lane ORDER BY x.v DESC LIMIT 1) AS l ON true),
     lowered AS (
         UPDATE lanes AS l
         SET low = least(l.low, f.seq), low_resumed = least(l.low_resumed, f.seq_resumed), v = l.v + 1
         FROM found AS f
         WHERE l.id = f.lane AND l.v = f.v AND (f.seq < f.low OR f.seq_resumed < f.low_resumed))
SELECT lane, CASE WHEN look = 1 OR seq_resumed IS NOT NULL OR (state > 0 AND seq < wait_seq) THEN 1 ELSE 0 END, state,
       least(low, seq), least(low_resumed, seq_resumed)
FROM found ORDER BY lane

-- name: drop_bells
-- Differs: those from $1 to $2 were taken out as they were read.

-- name: heads
SELECT u.lane,
       (SELECT q.seq FROM queue AS q
        WHERE q.lane = u.lane AND q.resumed = 1 AND q.seq >= coalesce(l.low_resumed, 0) ORDER BY q.seq LIMIT 1),
       (SELECT q.seq FROM queue AS q
        WHERE q.lane = u.lane AND q.resumed = 0 AND q.seq >= coalesce(l.low, 0) ORDER BY q.seq LIMIT 1)
FROM unnest($1::bytea[]) AS u (lane)
LEFT JOIN LATERAL (SELECT * FROM lanes AS x WHERE x.id = u.lane ORDER BY x.v DESC LIMIT 1) AS l ON true

-- name: run_of_lane
SELECT r.seq, r.workflow, r.priority, r.key, r.keys, r.stamp
FROM unnest($1::bigint[]) AS u (seq) JOIN runs AS r ON r.seq = u.seq

-- name: open_gate
-- With how many new lanes name it. Differs: lists it by its name as well.
WITH u AS (
         SELECT * FROM unnest($1::bytea[], $2::text[], $3::text[], $4::integer[], $5::bigint[])
           AS u (id, name, key, kind, lanes)),
     known AS (
         UPDATE gates AS g SET lanes = g.lanes + u.lanes, v = g.v + 1
         FROM u CROSS JOIN LATERAL (SELECT x.ctid AS at FROM gates AS x WHERE x.id = u.id ORDER BY x.v DESC LIMIT 1) AS newest
         WHERE g.ctid = newest.at
         RETURNING g.id),
     opened AS (
         INSERT INTO gates (id, name, key, kind, lanes)
         SELECT u.id, u.name, u.key, u.kind, u.lanes FROM u WHERE u.id NOT IN (SELECT id FROM known)
         RETURNING id, name, key, kind)
INSERT INTO gate_names (name, key, kind, id) SELECT name, key, kind, id FROM opened

-- name: named
UPDATE gates AS g SET lanes = g.lanes + u.lanes, v = g.v + 1
FROM unnest($1::bytea[], $2::bigint[]) AS u (id, lanes)
CROSS JOIN LATERAL (SELECT x.ctid AS at FROM gates AS x WHERE x.id = u.id ORDER BY x.v DESC LIMIT 1) AS newest
WHERE g.ctid = newest.at

-- name: lane
-- Differs: moves the fronts that are known of the lane, and lowers those of its unit and its gate if need be: not where it
-- stays in line and has moved back. The newest version is updated where it lies: by its id, all of them would be walked over.
WITH u AS MATERIALIZED (
         SELECT u.*, old.at, old.state AS was, old.gate AS was_at, old.wait_vtime AS was_vtime, old.wait_seq AS was_seq
         FROM unnest($1::bytea[], $2::bytea[], $3::text[], $4::bigint[], $5::bytea[], $6::bytea[], $7::integer[],
                     $8::bytea[], $9::bigint[], $10::bigint[], $11::text[], $12::integer[], $13::bigint[])
           AS u (id, unit, workflow, priority, gates, plan, state, gate, wait_vtime, wait_seq, wait_stamp, resumed, streak)
         LEFT JOIN LATERAL (
             SELECT x.ctid AS at, x.state, x.gate, x.wait_vtime, x.wait_seq FROM lanes AS x WHERE x.id = u.id
             ORDER BY x.v DESC LIMIT 1) AS old ON true),
     known AS (
         UPDATE lanes AS l
         SET state = u.state, gate = u.gate, wait_vtime = u.wait_vtime, wait_seq = u.wait_seq,
             wait_stamp = u.wait_stamp, resumed = u.resumed, streak = u.streak, v = l.v + 1,
             low = CASE WHEN u.state > 0 AND u.resumed = 0 THEN u.wait_seq ELSE l.low END,
             low_resumed = CASE WHEN u.resumed = 0 THEN 9223372036854775807 ELSE l.low_resumed END
         FROM u WHERE l.ctid = u.at),
     unit AS (
         UPDATE units AS x SET low = r.seq, v = x.v + 1
         FROM (SELECT u.unit, min(u.wait_seq) AS seq FROM u
               WHERE u.state = 1 AND (u.was = 1 AND u.wait_seq >= u.was_seq) IS NOT TRUE GROUP BY u.unit) AS r
         CROSS JOIN LATERAL (
             SELECT y.ctid AS at, y.low FROM units AS y WHERE y.id = r.unit ORDER BY y.v DESC LIMIT 1) AS newest
         WHERE x.ctid = newest.at AND r.seq < newest.low),
     gate AS (
         UPDATE gates AS g SET low_vtime = w.wait_vtime, low_seq = w.wait_seq, v = g.v + 1
         FROM (SELECT DISTINCT ON (u.gate) u.gate, u.wait_vtime, u.wait_seq FROM u
               WHERE u.state = 2 AND (u.was = 2 AND u.was_at = u.gate
                 AND (u.wait_vtime, u.wait_seq) >= (u.was_vtime, u.was_seq)) IS NOT TRUE
               ORDER BY u.gate, u.wait_vtime, u.wait_seq) AS w
         CROSS JOIN LATERAL (
             SELECT y.ctid AS at, y.low_vtime, y.low_seq FROM gates AS y WHERE y.id = w.gate ORDER BY y.v DESC LIMIT 1
         ) AS newest
         WHERE g.ctid = newest.at AND (w.wait_vtime, w.wait_seq) < (newest.low_vtime, newest.low_seq))
INSERT INTO lanes (id, unit, workflow, priority, gates, plan, state, gate, wait_vtime, wait_seq, wait_stamp, resumed, streak)
SELECT id, unit, workflow, priority, gates, plan, state, gate, wait_vtime, wait_seq, wait_stamp, resumed, streak
FROM u WHERE at IS NULL

-- name: unit
-- Differs: moves the front of its ready lanes, and that of the ready units of its workflow.
WITH u AS (
         SELECT u.*, old.at, CASE WHEN u.ready = 0 THEN 9223372036854775807 ELSE coalesce((
                SELECT m.wait_seq FROM lanes AS m
                WHERE m.unit = u.id AND m.state = 1 AND m.wait_seq >= coalesce(old.low, 0) ORDER BY m.wait_seq LIMIT 1
                ), 9223372036854775807) END AS low
         FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
           AS u (id, workflow, priority, vtime, ready)
         LEFT JOIN LATERAL (
             SELECT y.ctid AS at, y.low FROM units AS y WHERE y.id = u.id ORDER BY y.v DESC LIMIT 1) AS old ON true),
     known AS (
         UPDATE units AS x SET vtime = u.vtime, ready = u.ready, low = u.low, v = x.v + 1
         FROM u WHERE x.ctid = u.at),
     front AS (
         SELECT w.workflow, w.priority, f.v, coalesce(least(w.vtime, (
                SELECT y.vtime FROM units AS y
                WHERE y.workflow = w.workflow AND y.priority = w.priority AND y.ready > 0
                  AND y.vtime >= coalesce(f.vtime, 0) AND y.id NOT IN (SELECT id FROM u)
                ORDER BY y.vtime, y.id LIMIT 1)), 9223372036854775807) AS vtime
         FROM (SELECT workflow, priority, min(vtime) FILTER (WHERE ready > 0) AS vtime FROM u WHERE workflow <> ''
               GROUP BY workflow, priority) AS w
         LEFT JOIN LATERAL (
             SELECT x.v, x.vtime FROM fronts AS x WHERE x.workflow = w.workflow AND x.priority = w.priority
             ORDER BY x.v DESC LIMIT 1) AS f ON true),
     moved AS (
         UPDATE fronts AS x SET vtime = f.vtime, v = x.v + 1 FROM front AS f
         WHERE x.workflow = f.workflow AND x.priority = f.priority AND x.v = f.v AND x.vtime <> f.vtime),
     made AS (
         INSERT INTO fronts (workflow, priority, vtime)
         SELECT f.workflow, f.priority, f.vtime FROM front AS f WHERE f.v IS NULL)
INSERT INTO units (id, workflow, priority, vtime, ready, low)
SELECT u.id, u.workflow, u.priority, u.vtime, u.ready, u.low FROM u WHERE u.at IS NULL

-- name: gate
-- Differs: moves the front of the lanes that wait at it.
UPDATE gates AS g
SET in_use = u.in_use, debt = u.debt, at = u.at, q = u.q, waiting = u.waiting,
    dirty = CASE WHEN u.dirty = 1 THEN nextval('marks') ELSE 0 END, wake_at = u.wake_at, heralds = u.heralds,
    starts = g.starts + u.starts, v = g.v + 1,
    low_vtime = coalesce(front.wait_vtime, 9223372036854775807), low_seq = coalesce(front.wait_seq, 9223372036854775807)
FROM unnest($1::bytea[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::integer[], $8::bigint[],
            $9::text[], $10::bigint[]) AS u (id, in_use, debt, at, q, waiting, dirty, wake_at, heralds, starts)
CROSS JOIN LATERAL (
    SELECT x.ctid AS at, x.low_vtime, x.low_seq FROM gates AS x WHERE x.id = u.id ORDER BY x.v DESC LIMIT 1) AS newest
LEFT JOIN LATERAL (
    SELECT m.wait_vtime, m.wait_seq FROM lanes AS m
    WHERE u.waiting > 0 AND m.gate = u.id AND m.state = 2
      AND (m.wait_vtime, m.wait_seq) >= (newest.low_vtime, newest.low_seq)
    ORDER BY m.wait_vtime, m.wait_seq LIMIT 1) AS front ON true
WHERE g.ctid = newest.at

-- name: leave
DELETE FROM queue WHERE ctid = ANY(ARRAY(
    SELECT x.ctid FROM unnest($1::bytea[], $2::integer[], $3::bigint[]) AS u (lane, resumed, seq)
    CROSS JOIN LATERAL (
        SELECT q.ctid FROM queue AS q WHERE q.lane = u.lane AND q.resumed = u.resumed AND q.seq = u.seq OFFSET 0) AS x))

-- name: lease
INSERT INTO leases (seq, epoch, worker, claimed_at, resumed, slots, held)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::integer[], $6::bytea[], $7::integer[])

-- name: slot
INSERT INTO slots (gate, seq, held) SELECT u.gate, u.seq, 0 FROM unnest($1::bytea[], $2::bigint[]) AS u (gate, seq)

-- name: run
SELECT r.seq, r.run_id, r.workflow, r.params, r.attempt, r.stamp, r.started_at, r.logged, r.context
FROM unnest($1::bigint[]) AS u (seq) JOIN runs AS r ON r.seq = u.seq
