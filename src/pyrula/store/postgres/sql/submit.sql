-- name: stamp
-- In the order of their ids, so that two who add the same ones don't wait for each other in a circle.
INSERT INTO stamps (id, stamp)
SELECT u.id, u.stamp FROM unnest($1::bytea[], $2::bytea[]) AS u (id, stamp)
WHERE NOT EXISTS (SELECT 1 FROM stamps AS s WHERE s.id = u.id)
ORDER BY u.id
ON CONFLICT (id) DO NOTHING

-- name: run
-- A repeated id inserts nothing and returns nothing.
WITH run AS (
         INSERT INTO runs (run_id, workflow, state, params, stamp, lane, priority, key, keys, attempt, parked, logged, parent,
                           submitted_at, wall_submitted, context)
         SELECT u.run_id, u.workflow, 'open', u.params, u.stamp, u.lane, u.priority, u.key, u.keys, 1, u.parked, 0, u.parent,
                u.submitted_at, u.wall_submitted, u.context
         FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bigint[], $7::text[], $8::text[],
                     $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bytea[]) WITH ORDINALITY
           AS u (run_id, workflow, params, stamp, lane, priority, key, keys, parked, parent, submitted_at, wall_submitted,
                 context, n)
         ORDER BY u.n
         ON CONFLICT (run_id) DO NOTHING
         RETURNING run_id, seq, key),
     keyed AS (INSERT INTO run_keys (key, seq) SELECT key, seq FROM run WHERE key <> '')
SELECT run_id, seq FROM run

-- name: existing
SELECT workflow, params FROM runs WHERE run_id = $1::text

-- name: queue
-- Differs: rings as well, and tells from where on to look. None of these runs is in a queue.
WITH put AS (
         INSERT INTO queue (lane, resumed, seq, stamp)
         SELECT * FROM unnest($1::bytea[], $2::integer[], $3::bigint[], $4::bytea[])
         RETURNING lane, resumed, seq)
INSERT INTO inbox (lane, look, seq, seq_resumed)
SELECT lane, 0, min(seq) FILTER (WHERE resumed = 0), min(seq) FILTER (WHERE resumed = 1) FROM put GROUP BY lane

-- name: join
-- Differs: nothing is left to do, the queue has rung.

-- name: bell
-- Differs: nobody waits for whoever rings the same lane; a lane may ring often.
INSERT INTO inbox (lane, look) SELECT DISTINCT lane, 1 FROM unnest($1::bytea[]) AS u (lane)

-- name: timer
INSERT INTO timers (due, seq, kind) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::integer[])
ON CONFLICT DO NOTHING

-- name: wall_timer
INSERT INTO wall_timers (wall_due, seq) SELECT * FROM unnest($1::bigint[], $2::bigint[])
ON CONFLICT DO NOTHING

-- name: timer_beside
-- Differs: set by a transaction that may commit late; the next turn brings it to timers.
INSERT INTO arrivals (wall, due, seq, kind)
SELECT false, u.due, u.seq, u.kind FROM unnest($1::bigint[], $2::bigint[], $3::integer[]) AS u (due, seq, kind)

-- name: wall_timer_beside
-- Differs: as timer_beside.
INSERT INTO arrivals (wall, due, seq, kind)
SELECT true, u.due, u.seq, 0 FROM unnest($1::bigint[], $2::bigint[]) AS u (due, seq)
