-- name: suspects
SELECT seq FROM suspects WHERE seq > $1::bigint ORDER BY seq LIMIT $2::bigint

-- name: suspect
INSERT INTO suspects (seq) SELECT unnest($1::bigint[]) ON CONFLICT DO NOTHING

-- name: cleared
DELETE FROM suspects WHERE seq = ANY ($1::bigint[])

-- name: waits
SELECT r.seq, r.run_id, s.kind, s.value, s.due
FROM unnest($1::bigint[]) AS u (seq)
JOIN runs AS r ON r.seq = u.seq
JOIN steps AS s ON s.seq = r.seq AND s.status = 'waiting'
WHERE r.parked = 'wait' AND r.state = 'open'

-- name: queued
-- A lane waits at one gate; if that is a limit, somebody inside has to leave first.
SELECT r.seq, r.run_id, g.id, g.name, g.key, l.wait_stamp
FROM unnest($1::bigint[]) AS u (seq)
JOIN runs AS r ON r.seq = u.seq
JOIN lanes AS l ON l.id = r.lane
JOIN gates AS g ON g.id = l.gate
WHERE r.state = 'open' AND r.parked IS NULL AND l.state = 2 AND g.kind <> 1
  AND NOT EXISTS (SELECT 1 FROM leases AS x WHERE x.seq = r.seq)

-- name: fail
-- One wait, should two branches wait for the same child: the other is told that the child was cancelled.
UPDATE steps SET status = 'error', value = $3::bytea, settled = $4::bigint, at = $5::bigint
WHERE seq = $1::bigint AND (branch, number) = (
    SELECT branch, number FROM steps
    WHERE seq = $1::bigint AND value = $2::bytea AND kind = 'child' AND status = 'waiting' ORDER BY branch, number LIMIT 1
)
