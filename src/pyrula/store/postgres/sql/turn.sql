-- name: worker
SELECT worker_id, lease, expires_at, limiters_number FROM workers WHERE incarnation = $1::text

-- name: limiters
SELECT limiters FROM workers WHERE incarnation = $1::text

-- name: renew
UPDATE workers SET expires_at = $2::bigint WHERE incarnation = $1::text

-- name: signals
SELECT seq, epoch, signal FROM leases WHERE worker = $1::text AND signal IN (1, 2, 3)

-- name: told
-- 4 marks a cancel that was told: it still decides how the run ends, and is not told again.
UPDATE leases SET signal = CASE WHEN signal & 2 <> 0 THEN 6 ELSE 0 END WHERE seq = ANY($1::bigint[])
