-- name: waits
-- A run that has ended settles nothing any more.
SELECT s.seq, s.branch, s.number, s.kind, s.name, s.value, s.due
FROM steps AS s JOIN runs AS r ON r.seq = s.seq
WHERE s.seq = ?1 AND s.status = 'waiting' AND r.state = 'open'

-- name: parents
SELECT seq, value FROM steps WHERE value = ?1 AND status = 'waiting' AND kind = 'child'

-- name: events
-- As many of a name as there are waits for it, the oldest first.
SELECT id, seq, name, payload FROM events WHERE seq = ?1 AND name = ?2 ORDER BY id LIMIT ?3

-- name: children
SELECT run_id, state, result, error FROM runs WHERE run_id = ?1

-- name: count
UPDATE runs SET logged = logged + ?2 WHERE seq = ?1 RETURNING seq, logged

-- name: entry
UPDATE steps SET status = ?4, value = ?5, settled = ?6, at = ?7
WHERE seq = ?1 AND branch = ?2 AND number = ?3 AND status = 'waiting'

-- name: take
DELETE FROM events WHERE id = ?1

-- name: unpark
UPDATE runs SET parked = NULL WHERE seq = ?1 AND parked = 'wait' AND state = 'open' RETURNING seq

-- name: signal
UPDATE leases SET signal = signal | ?2 WHERE seq = ?1

-- name: run
SELECT seq, state FROM runs WHERE run_id = ?1

-- name: seen
SELECT 1 FROM event_ids WHERE scope = ?1 AND event_id = ?2

-- name: remember
INSERT INTO event_ids (scope, event_id, seq) VALUES (?1, ?2, ?3)

-- name: event
INSERT INTO events (seq, name, payload, event_id) VALUES (?1, ?2, ?3, ?4)
