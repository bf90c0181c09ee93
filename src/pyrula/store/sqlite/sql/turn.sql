-- name: worker
SELECT worker_id, lease, expires_at, limiters_number FROM workers WHERE incarnation = ?1

-- name: limiters
SELECT limiters FROM workers WHERE incarnation = ?1

-- name: renew
UPDATE workers SET expires_at = ?2 WHERE incarnation = ?1

-- name: signals
SELECT seq, epoch, signal FROM leases WHERE worker = ?1 AND signal > 0 AND signal < 4

-- name: told
-- 4 marks a cancel that was told: it still decides how the run ends, and is not told again.
UPDATE leases SET signal = CASE WHEN signal & 2 THEN 6 ELSE 0 END WHERE seq = ?1
