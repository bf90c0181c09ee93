-- name: suspects
SELECT seq FROM suspects WHERE seq > ?1 ORDER BY seq LIMIT ?2

-- name: suspect
INSERT INTO suspects (seq) VALUES (?1) ON CONFLICT DO NOTHING

-- name: cleared
DELETE FROM suspects WHERE seq = ?1

-- name: waits
SELECT r.seq, r.run_id, s.kind, s.value, s.due
FROM runs AS r JOIN steps AS s ON s.seq = r.seq
WHERE r.seq = ?1 AND r.parked = 'wait' AND r.state = 'open' AND s.status = 'waiting'

-- name: queued
-- A lane waits at one gate; if that is a limit, somebody inside has to leave first.
SELECT r.seq, r.run_id, g.id, g.name, g.key, l.wait_stamp
FROM runs AS r
JOIN lanes AS l ON l.id = r.lane
JOIN gates AS g ON g.id = l.gate
WHERE r.seq = ?1 AND r.state = 'open' AND r.parked IS NULL AND l.state = 2 AND g.kind <> 1
  AND NOT EXISTS (SELECT 1 FROM leases AS x WHERE x.seq = r.seq)

-- name: fail
-- One wait, should two branches wait for the same child: the other is told that the child was cancelled.
UPDATE steps SET status = 'error', value = ?3, settled = ?4, at = ?5
WHERE seq = ?1 AND (branch, number) = (
    SELECT branch, number FROM steps
    WHERE seq = ?1 AND value = ?2 AND kind = 'child' AND status = 'waiting' ORDER BY branch, number LIMIT 1
)
