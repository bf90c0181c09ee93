-- name: runs
SELECT r.run_id, r.seq, r.lane,
       CASE WHEN r.state <> 'open' THEN r.state
            WHEN EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq) THEN 'executing'
            WHEN r.parked IN ('wait', 'retry', 'aside') THEN 'parked'
            ELSE 'queued' END
FROM unnest($1::text[]) AS u (run_id) JOIN runs AS r ON r.run_id = u.run_id

-- name: children
SELECT r.run_id, r.seq, r.lane,
       CASE WHEN EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq) THEN 'executing' ELSE 'queued' END
FROM unnest($1::text[]) AS u (run_id) JOIN runs AS r ON r.parent = u.run_id
WHERE r.state = 'open'

-- name: unqueue
DELETE FROM queue AS q USING unnest($1::bytea[], $2::bigint[]) AS u (lane, seq)
WHERE q.lane = u.lane AND q.resumed IN (0, 1) AND q.seq = u.seq
RETURNING q.lane

-- name: timers
DELETE FROM timers WHERE seq = ANY($1::bigint[])

-- name: wall_timers
DELETE FROM wall_timers WHERE seq = ANY($1::bigint[])
