-- name: workers
-- Those that live, of one name or of any.
SELECT incarnation, worker_id, facts, limiters, limiters_number FROM workers
WHERE expires_at > ?1 AND (?2 IS NULL OR worker_id = ?2)
ORDER BY worker_id, incarnation

-- name: want
UPDATE workers SET limiters = ?2, limiters_number = ?3 WHERE incarnation = ?1
