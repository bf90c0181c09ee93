-- name: due
SELECT id, workflow, text, stamped FROM buffers WHERE due <= $1::bigint ORDER BY due, id LIMIT $2::bigint

-- name: events
SELECT payload FROM buffered_events WHERE buffer = $1::bigint ORDER BY number

-- name: seq
SELECT r.run_id, r.seq FROM unnest($1::text[]) AS u (run_id) JOIN runs AS r ON r.run_id = u.run_id

-- name: remember
-- From now on a repeated event_id is answered out of the run.
UPDATE event_ids AS e SET buffer = NULL, seq = u.seq FROM unnest($1::bigint[], $2::bigint[]) AS u (buffer, seq)
WHERE e.buffer = u.buffer

-- name: drop_events
DELETE FROM buffered_events WHERE buffer = ANY($1::bigint[])

-- name: drop
DELETE FROM buffers WHERE id = ANY($1::bigint[])
