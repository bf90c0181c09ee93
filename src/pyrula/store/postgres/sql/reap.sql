-- name: lapsed
-- A lease lasts until its last microsecond has passed.
SELECT incarnation FROM workers WHERE expires_at <= $1::bigint ORDER BY expires_at LIMIT $2::bigint

-- name: leases
SELECT l.seq, l.claimed_at, l.slots, l.held, l.signal, w.worker_id
FROM leases AS l LEFT JOIN workers AS w ON w.incarnation = l.worker
WHERE l.worker = $1::text
ORDER BY l.seq LIMIT $2::bigint

-- name: lapse
UPDATE runs AS r SET lapses = r.lapses + 1 FROM unnest($1::bigint[]) AS u (seq) WHERE r.seq = u.seq

-- name: forget
DELETE FROM workers WHERE incarnation = $1::text
