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
WHERE r.run_id = ?1

-- name: waits
SELECT s.kind, s.name, s.value, s.due,
       (SELECT CASE WHEN r.state <> 'open' THEN r.state
                    WHEN EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq) THEN 'executing'
                    WHEN r.parked IN ('wait', 'retry', 'aside') THEN 'parked'
                    ELSE 'queued' END
        FROM runs AS r WHERE s.kind = 'child' AND r.run_id = CAST(s.value AS TEXT))
FROM steps AS s WHERE s.seq = ?1 AND s.status = 'waiting' ORDER BY s.branch, s.number LIMIT 100

-- name: due
SELECT (SELECT min(due) FROM timers WHERE seq = ?1 AND kind = ?2),
       (SELECT min(wall_due) FROM wall_timers WHERE seq = ?1)

-- name: place
SELECT resumed FROM queue WHERE lane = ?1 AND resumed IN (0, 1) AND seq = ?2

-- name: ahead
-- Resumed runs go before fresh ones. Counted as far as anybody wants to know.
SELECT 1, count(*) FROM (
    SELECT 1 FROM queue WHERE lane = ?1 AND resumed = 1 AND (?2 = 0 OR seq < ?3) LIMIT ?4)
UNION ALL
SELECT 0, count(*) FROM (SELECT 1 FROM queue WHERE lane = ?1 AND resumed = 0 AND ?2 = 0 AND seq < ?3 LIMIT ?4)

-- name: workers
SELECT worker_id, serves, facts FROM workers WHERE expires_at > ?1 ORDER BY worker_id
