-- name: timers
SELECT due, seq, kind FROM timers WHERE due <= ?1 ORDER BY due, seq, kind LIMIT ?2

-- name: wall_timers
SELECT wall_due, seq FROM wall_timers WHERE wall_due <= ?1 ORDER BY wall_due, seq LIMIT ?2

-- name: drop_timer
DELETE FROM timers WHERE due = ?1 AND seq = ?2 AND kind = ?3

-- name: drop_wall_timer
DELETE FROM wall_timers WHERE wall_due = ?1 AND seq = ?2

-- name: start
UPDATE runs SET parked = NULL
WHERE seq = ?1 AND state = 'open' AND parked IN ('delay', 'retry', 'later')
RETURNING seq

-- name: expire
-- Counts only before the first start; a run that is executing has a lease.
SELECT lane FROM runs
WHERE seq = ?1 AND state = 'open' AND started_at IS NULL AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.seq = ?1)

-- name: next_due
SELECT (SELECT min(wake_at) FROM gates WHERE wake_at IS NOT NULL), (SELECT min(due) FROM timers),
       (SELECT min(due) FROM buffers), (SELECT min(expires_at) FROM overrides),
       (SELECT min(expires_at) FROM workers WHERE incarnation <> ?1),
       EXISTS (SELECT 1 FROM runs WHERE parked = 'aside')

-- name: next_wall
SELECT (SELECT min(wall_due) FROM wall_timers), (SELECT min(wall_due) FROM schedules)
