-- name: runs
SELECT r.run_id, r.seq, r.lane,
       CASE WHEN r.state <> 'open' THEN r.state
            WHEN EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq) THEN 'executing'
            WHEN r.parked IN ('wait', 'retry', 'aside') THEN 'parked'
            ELSE 'queued' END
FROM runs AS r WHERE r.run_id = ?1

-- name: children
SELECT r.run_id, r.seq, r.lane,
       CASE WHEN EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq) THEN 'executing' ELSE 'queued' END
FROM runs AS r WHERE r.parent = ?1 AND r.state = 'open'

-- name: unqueue
DELETE FROM queue WHERE lane = ?1 AND resumed IN (0, 1) AND seq = ?2 RETURNING lane

-- name: timers
DELETE FROM timers WHERE seq = ?1

-- name: wall_timers
DELETE FROM wall_timers WHERE seq = ?1
