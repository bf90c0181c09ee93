-- name: workers
-- Those that live, of one name or of any.
SELECT incarnation, worker_id, facts, limiters, limiters_number FROM workers
WHERE expires_at > $1::bigint AND ($2::text IS NULL OR worker_id = $2::text)
ORDER BY worker_id, incarnation

-- name: want
UPDATE workers AS w SET limiters = u.limiters, limiters_number = u.number
FROM unnest($1::text[], $2::bytea[], $3::bigint[]) AS u (incarnation, limiters, number)
WHERE w.incarnation = u.incarnation
