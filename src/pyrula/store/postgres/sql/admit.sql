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
-- Differs: takes out all that was appended since the remembered transaction, a lane once, and keeps in bells what this
-- turn has no time for: that is where the turns go round.
WITH rung AS (
         DELETE FROM inbox WHERE (xid, id) IN (
             SELECT i.xid, i.id FROM inbox AS i
             WHERE i.xid >= (SELECT inbox FROM clock ORDER BY number DESC LIMIT 1) ORDER BY i.xid, i.id LIMIT 20000)
         RETURNING lane, look),
     known AS (SELECT lane, look FROM bells WHERE lane > $1::bytea ORDER BY lane LIMIT $2::bigint),
     chosen AS (
         SELECT lane, max(look) AS look
         FROM (SELECT lane, look FROM rung WHERE lane > $1::bytea UNION ALL SELECT lane, look FROM known) AS u
         GROUP BY lane ORDER BY lane LIMIT $2::bigint),
     later AS (
         INSERT INTO bells (lane, look)
         SELECT lane, max(look) FROM rung WHERE lane NOT IN (SELECT lane FROM chosen) GROUP BY lane
         ON CONFLICT (lane) DO UPDATE SET look = greatest(bells.look, excluded.look))
SELECT lane, look FROM chosen ORDER BY lane

-- name: drop_bell
DELETE FROM bells AS b USING unnest($1::bytea[]) AS u (lane) WHERE b.lane = u.lane

-- name: heads
SELECT u.lane,
       (SELECT q.seq FROM queue AS q WHERE q.lane = u.lane AND q.resumed = 1 ORDER BY q.seq LIMIT 1),
       (SELECT q.seq FROM queue AS q WHERE q.lane = u.lane AND q.resumed = 0 ORDER BY q.seq LIMIT 1)
FROM unnest($1::bytea[]) AS u (lane)

-- name: run_of_lane
SELECT workflow, priority, key, keys, stamp FROM runs WHERE seq = $1::bigint

-- name: open_gate
INSERT INTO gates (id, name, key, kind)
SELECT u.id, u.name, u.key, u.kind FROM unnest($1::bytea[], $2::text[], $3::text[], $4::integer[]) AS u (id, name, key, kind)
WHERE NOT EXISTS (SELECT 1 FROM gates AS g WHERE g.id = u.id)

-- name: lane
WITH u AS (
         SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::text[], $4::bigint[], $5::bytea[], $6::bytea[], $7::integer[],
                              $8::bytea[], $9::bigint[], $10::bigint[], $11::text[], $12::integer[], $13::bigint[])
           AS u (id, unit, workflow, priority, gates, plan, state, gate, wait_vtime, wait_seq, wait_stamp, resumed, streak)),
     known AS (
         UPDATE lanes AS l
         SET state = u.state, gate = u.gate, wait_vtime = u.wait_vtime, wait_seq = u.wait_seq,
             wait_stamp = u.wait_stamp, resumed = u.resumed, streak = u.streak, v = l.v + 1
         FROM u CROSS JOIN LATERAL (SELECT x.v FROM lanes AS x WHERE x.id = u.id ORDER BY x.v DESC LIMIT 1) AS newest
         WHERE l.id = u.id AND l.v = newest.v
         RETURNING l.id)
INSERT INTO lanes (id, unit, workflow, priority, gates, plan, state, gate, wait_vtime, wait_seq, wait_stamp, resumed, streak)
SELECT * FROM u WHERE u.id NOT IN (SELECT id FROM known)

-- name: unit
WITH u AS (
         SELECT * FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
           AS u (id, workflow, priority, vtime, ready)),
     known AS (
         UPDATE units AS x SET vtime = u.vtime, ready = u.ready, v = x.v + 1
         FROM u CROSS JOIN LATERAL (SELECT y.v FROM units AS y WHERE y.id = u.id ORDER BY y.v DESC LIMIT 1) AS newest
         WHERE x.id = u.id AND x.v = newest.v
         RETURNING x.id)
INSERT INTO units (id, workflow, priority, vtime, ready)
SELECT * FROM u WHERE u.id NOT IN (SELECT id FROM known)

-- name: gate
UPDATE gates AS g
SET in_use = u.in_use, debt = u.debt, at = u.at, q = u.q, waiting = u.waiting,
    dirty = CASE WHEN u.dirty = 1 THEN nextval('marks') ELSE 0 END, wake_at = u.wake_at, heralds = u.heralds,
    starts = g.starts + u.starts, v = g.v + 1
FROM unnest($1::bytea[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::integer[], $8::bigint[],
            $9::text[], $10::bigint[]) AS u (id, in_use, debt, at, q, waiting, dirty, wake_at, heralds, starts)
CROSS JOIN LATERAL (SELECT x.v FROM gates AS x WHERE x.id = u.id ORDER BY x.v DESC LIMIT 1) AS newest
WHERE g.id = u.id AND g.v = newest.v

-- name: leave
DELETE FROM queue AS q USING unnest($1::bytea[], $2::integer[], $3::bigint[]) AS u (lane, resumed, seq)
WHERE q.lane = u.lane AND q.resumed = u.resumed AND q.seq = u.seq

-- name: lease
INSERT INTO leases (seq, epoch, worker, claimed_at, resumed, slots, held)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::integer[], $6::bytea[], $7::integer[])

-- name: slot
INSERT INTO slots (gate, seq, held) SELECT u.gate, u.seq, 0 FROM unnest($1::bytea[], $2::bigint[]) AS u (gate, seq)

-- name: run
SELECT r.seq, r.run_id, r.workflow, r.params, r.attempt, r.stamp, r.started_at, r.logged, r.context
FROM unnest($1::bigint[]) AS u (seq) JOIN runs AS r ON r.seq = u.seq
