-- name: waits
-- A run that has ended settles nothing any more.
SELECT s.seq, s.branch, s.number, s.kind, s.name, s.value, s.due
FROM unnest($1::bigint[]) AS u (seq)
JOIN steps AS s ON s.seq = u.seq AND s.status = 'waiting'
JOIN runs AS r ON r.seq = s.seq
WHERE r.state = 'open'

-- name: parents
SELECT s.seq, s.value FROM unnest($1::bytea[]) AS u (value)
JOIN steps AS s ON s.value = u.value AND s.status = 'waiting' AND s.kind = 'child'

-- name: events
-- As many of a name as there are waits for it, the oldest first.
SELECT e.id, e.seq, e.name, e.payload
FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS u (seq, name, n)
CROSS JOIN LATERAL (
    SELECT id, seq, name, payload FROM events WHERE seq = u.seq AND name = u.name ORDER BY id LIMIT u.n
) AS e

-- name: children
SELECT r.run_id, r.state, r.result, r.error FROM unnest($1::text[]) AS u (run_id) JOIN runs AS r ON r.run_id = u.run_id

-- name: count
UPDATE runs AS r SET logged = r.logged + u.n FROM unnest($1::bigint[], $2::bigint[]) AS u (seq, n)
WHERE r.seq = u.seq
RETURNING r.seq, r.logged

-- name: entry
UPDATE steps AS s SET status = u.status, value = u.value, settled = u.settled, at = u.at
FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bytea[], $6::bigint[], $7::bigint[])
  AS u (seq, branch, number, status, value, settled, at)
WHERE s.seq = u.seq AND s.branch = u.branch AND s.number = u.number AND s.status = 'waiting'

-- name: take
DELETE FROM events WHERE id = ANY($1::bigint[])

-- name: unpark
UPDATE runs AS r SET parked = NULL FROM unnest($1::bigint[]) AS u (seq)
WHERE r.seq = u.seq AND r.parked = 'wait' AND r.state = 'open'
RETURNING r.seq

-- name: signal
UPDATE leases AS l SET signal = l.signal | u.signal FROM unnest($1::bigint[], $2::integer[]) AS u (seq, signal)
WHERE l.seq = u.seq

-- name: run
SELECT seq, state FROM runs WHERE run_id = $1::text

-- name: seen
SELECT 1 FROM event_ids WHERE scope = $1::text AND event_id = $2::text

-- name: remember
INSERT INTO event_ids (scope, event_id, seq) VALUES ($1::text, $2::text, $3::bigint)

-- name: event
INSERT INTO events (seq, name, payload, event_id) VALUES ($1::bigint, $2::text, $3::bytea, $4::text)
