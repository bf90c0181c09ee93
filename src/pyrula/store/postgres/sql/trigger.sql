-- name: known
-- Answered only if it was the event that completed its batch.
SELECT e.scope, e.event_id, CASE WHEN e.answered = 1 THEN r.run_id END
FROM unnest($1::text[], $2::text[]) AS u (scope, event_id)
JOIN event_ids AS e ON e.scope = u.scope AND e.event_id = u.event_id
LEFT JOIN runs AS r ON r.seq = e.seq

-- name: load
SELECT b.id, b.workflow, b.key, b.text, b.stamped, b.opened_at, b.due, b.count, b.bytes
FROM unnest($1::text[], $2::text[]) AS u (workflow, key) JOIN buffers AS b ON b.workflow = u.workflow AND b.key = u.key

-- name: stored
SELECT id, workflow, text, stamped FROM buffers WHERE workflow = $1::text AND key = $2::text

-- name: open
INSERT INTO buffers (workflow, key, text, opened_at, due, count, bytes, stamped)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bytea[])
RETURNING id, workflow, key

-- name: grow
UPDATE buffers AS b SET due = u.due, count = u.count, bytes = u.bytes
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS u (id, due, count, bytes)
WHERE b.id = u.id

-- name: event
INSERT INTO buffered_events (buffer, number, payload) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[])

-- name: remember
INSERT INTO event_ids (scope, event_id, buffer, seq, answered)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::integer[])
