-- name: run
SELECT r.seq, r.workflow,
       CASE WHEN r.state <> 'open' THEN r.state
            WHEN l.seq IS NOT NULL THEN 'executing'
            WHEN r.parked IN ('wait', 'retry', 'aside') THEN 'parked'
            ELSE 'queued' END,
       r.parked, r.lane, s.stamp, r.keys, r.error, coalesce(w.worker_id, r.worker), r.key, coalesce(l.signal, 0)
FROM runs AS r
JOIN stamps AS s ON s.id = r.stamp
LEFT JOIN leases AS l ON l.seq = r.seq
LEFT JOIN workers AS w ON w.incarnation = l.worker
WHERE r.run_id = $1::text

-- name: waits
SELECT s.kind, s.name, s.value, s.due,
       (SELECT CASE WHEN r.state <> 'open' THEN r.state
                    WHEN EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq) THEN 'executing'
                    WHEN r.parked IN ('wait', 'retry', 'aside') THEN 'parked'
                    ELSE 'queued' END
        FROM runs AS r
        WHERE r.run_id = CASE WHEN s.kind = 'child' THEN convert_from(s.value, 'UTF8') END)
FROM steps AS s WHERE s.seq = $1::bigint AND s.status = 'waiting' ORDER BY s.branch, s.number LIMIT 100

-- name: due
-- Differs: what was set beside the lock may not have been brought to the timers yet.
SELECT least((SELECT min(due) FROM timers WHERE seq = $1::bigint AND kind = $2::integer),
             (SELECT min(due) FROM arrivals WHERE seq = $1::bigint AND kind = $2::integer AND NOT wall)),
       least((SELECT min(wall_due) FROM wall_timers WHERE seq = $1::bigint),
             (SELECT min(due) FROM arrivals WHERE seq = $1::bigint AND wall))

-- name: place
SELECT resumed FROM queue WHERE lane = $1::bytea AND resumed IN (0, 1) AND seq = $2::bigint

-- name: ahead
-- Resumed runs go before fresh ones. Counted as far as anybody wants to know.
SELECT 1, count(*) FROM (
    SELECT 1 FROM queue WHERE lane = $1::bytea AND resumed = 1 AND ($2::integer = 0 OR seq < $3::bigint) LIMIT $4::bigint) AS q
UNION ALL
SELECT 0, count(*) FROM (
    SELECT 1 FROM queue
    WHERE lane = $1::bytea AND resumed = 0 AND $2::integer = 0 AND seq < $3::bigint LIMIT $4::bigint) AS q

-- name: workers
SELECT worker_id, serves, facts FROM workers WHERE expires_at > $1::bigint ORDER BY worker_id
