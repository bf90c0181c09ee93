-- name: meta
SELECT turn, vtime FROM meta

-- name: turn
UPDATE meta SET turn = ?1, vtime = ?2

-- name: serves
SELECT serves FROM workers WHERE incarnation = ?1

-- name: stamp
SELECT stamp FROM stamps WHERE id = ?1

-- name: bells
-- With the state of each lane, NULL: not stored yet; and where its queues begin (0: not known).
SELECT i.lane, i.look, l.state, 0, 0 FROM inbox AS i LEFT JOIN lanes AS l ON l.id = i.lane
WHERE i.lane > ?1 ORDER BY i.lane LIMIT ?2

-- name: drop_bells
-- Those that were looked at: all from one lane to another.
DELETE FROM inbox WHERE lane > ?1 AND lane <= ?2

-- name: heads
SELECT ?1, (SELECT seq FROM queue WHERE lane = ?1 AND resumed = 1 ORDER BY seq LIMIT 1),
       (SELECT seq FROM queue WHERE lane = ?1 AND resumed = 0 ORDER BY seq LIMIT 1)

-- name: run_of_lane
SELECT seq, workflow, priority, key, keys, stamp FROM runs WHERE seq = ?1

-- name: open_gate
-- With how many new lanes name it.
INSERT INTO gates (id, name, key, kind, lanes) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (id) DO UPDATE SET lanes = lanes + excluded.lanes

-- name: named
UPDATE gates SET lanes = lanes + ?2 WHERE id = ?1

-- name: lane
INSERT INTO lanes (id, unit, workflow, priority, gates, plan, state, gate, wait_vtime, wait_seq, wait_stamp, resumed, streak)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT (id) DO UPDATE SET
    state = excluded.state, gate = excluded.gate, wait_vtime = excluded.wait_vtime, wait_seq = excluded.wait_seq,
    wait_stamp = excluded.wait_stamp, resumed = excluded.resumed, streak = excluded.streak

-- name: unit
INSERT INTO units (id, workflow, priority, vtime, ready) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (id) DO UPDATE SET vtime = excluded.vtime, ready = excluded.ready

-- name: gate
UPDATE gates SET in_use = ?2, debt = ?3, at = ?4, q = ?5, waiting = ?6, dirty = ?7, wake_at = ?8, heralds = ?9,
    starts = starts + ?10
WHERE id = ?1

-- name: leave
DELETE FROM queue WHERE lane = ?1 AND resumed = ?2 AND seq = ?3

-- name: lease
INSERT INTO leases (seq, epoch, worker, claimed_at, resumed, slots, held) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: slot
INSERT INTO slots (gate, seq, held) VALUES (?1, ?2, 0)

-- name: run
SELECT r.seq, r.run_id, r.workflow, r.params, r.attempt, r.stamp, r.started_at, r.logged, r.context
FROM json_each(?1) AS j CROSS JOIN runs AS r ON r.seq = j.value
