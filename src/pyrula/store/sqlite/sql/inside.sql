-- name: leases
-- Whoever executes with slots that are noted nowhere else.
SELECT seq, slots FROM leases WHERE held = 0 AND slots <> x''

-- name: noted
SELECT gate, seq FROM slots WHERE gate = ?1

-- name: run
SELECT seq, run_id, workflow, priority, submitted_at, wall_submitted FROM runs WHERE seq = ?1
