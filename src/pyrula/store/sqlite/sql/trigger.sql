-- name: known
-- Answered only if it was the event that completed its batch.
SELECT e.scope, e.event_id, CASE WHEN e.answered THEN r.run_id END
FROM event_ids AS e LEFT JOIN runs AS r ON r.seq = e.seq
WHERE e.scope = ?1 AND e.event_id = ?2

-- name: load
SELECT id, workflow, key, text, stamped, opened_at, due, count, bytes FROM buffers WHERE workflow = ?1 AND key = ?2

-- name: stored
SELECT id, workflow, text, stamped FROM buffers WHERE workflow = ?1 AND key = ?2

-- name: open
INSERT INTO buffers (workflow, key, text, opened_at, due, count, bytes, stamped)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
RETURNING id, workflow, key

-- name: grow
UPDATE buffers SET due = ?2, count = ?3, bytes = ?4 WHERE id = ?1

-- name: event
INSERT INTO buffered_events (buffer, number, payload) VALUES (?1, ?2, ?3)

-- name: remember
INSERT INTO event_ids (scope, event_id, buffer, seq, answered) VALUES (?1, ?2, ?3, ?4, ?5)
