-- name: due
SELECT id, workflow, text, stamped FROM buffers WHERE due <= ?1 ORDER BY due, id LIMIT ?2

-- name: events
SELECT payload FROM buffered_events WHERE buffer = ?1 ORDER BY number

-- name: seq
SELECT run_id, seq FROM runs WHERE run_id = ?1

-- name: remember
-- From now on a repeated event_id is answered out of the run.
UPDATE event_ids SET buffer = NULL, seq = ?2 WHERE buffer = ?1

-- name: drop_events
DELETE FROM buffered_events WHERE buffer = ?1

-- name: drop
DELETE FROM buffers WHERE id = ?1
