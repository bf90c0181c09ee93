-- name: stamp
INSERT INTO stamps (id, stamp) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING

-- name: run
-- A repeated id inserts nothing.
INSERT INTO runs (run_id, workflow, state, params, stamp, lane, priority, key, keys, attempt, parked, logged, parent,
                  submitted_at, wall_submitted, context)
VALUES (?1, ?2, 'open', ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, 0, ?10, ?11, ?12, ?13)
ON CONFLICT (run_id) DO NOTHING

-- name: newest
-- What the last ?1 inserts made: a new run's seq is above all others. Differs: there `run` returns it.
SELECT run_id, seq FROM runs ORDER BY seq DESC LIMIT ?1

-- name: existing
SELECT workflow, params FROM runs WHERE run_id = ?1

-- name: queue
INSERT INTO queue (lane, resumed, seq, stamp) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING

-- name: join
INSERT INTO inbox (lane, look) VALUES (?1, 0) ON CONFLICT (lane) DO NOTHING

-- name: bell
INSERT INTO inbox (lane, look) VALUES (?1, 1) ON CONFLICT (lane) DO UPDATE SET look = 1

-- name: timer
INSERT INTO timers (due, seq, kind) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING

-- name: wall_timer
INSERT INTO wall_timers (wall_due, seq) VALUES (?1, ?2) ON CONFLICT DO NOTHING
