-- name: seq
SELECT seq FROM runs WHERE run_id = ?1

-- name: run
SELECT r.seq, r.run_id, r.workflow,
       CASE WHEN r.state <> 'open' THEN r.state
            WHEN l.seq IS NOT NULL THEN 'executing'
            WHEN r.parked IN ('wait', 'retry', 'aside') THEN 'parked'
            ELSE 'queued' END,
       r.params, r.result, r.error, r.attempt, r.priority, r.submitted_at, r.wall_submitted,
       coalesce(r.started_at, l.claimed_at), r.finished_at, coalesce(w.worker_id, r.worker), s.stamp, r.keys
FROM runs AS r
JOIN stamps AS s ON s.id = r.stamp
LEFT JOIN leases AS l ON l.seq = r.seq
LEFT JOIN workers AS w ON w.incarnation = l.worker
WHERE r.seq = ?1

-- name: all
SELECT r.seq, r.workflow, r.key,
       CASE WHEN r.state <> 'open' THEN r.state
            WHEN EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq) THEN 'executing'
            WHEN r.parked IN ('wait', 'retry', 'aside') THEN 'parked'
            ELSE 'queued' END
FROM runs AS r WHERE r.seq < ?1 ORDER BY r.seq DESC LIMIT ?2

-- name: of_workflow
SELECT r.seq, r.workflow, r.key,
       CASE WHEN r.state <> 'open' THEN r.state
            WHEN EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq) THEN 'executing'
            WHEN r.parked IN ('wait', 'retry', 'aside') THEN 'parked'
            ELSE 'queued' END
FROM runs AS r WHERE r.workflow = ?3 AND r.seq < ?1 ORDER BY r.seq DESC LIMIT ?2

-- name: of_key
-- The index goes by blocks of 2,048 runs: those with runs of the key, from the newest on, until there are enough of them.
WITH RECURSIVE block (n, found) AS (
    SELECT (min(max(seq), ?1 - 1)) >> 11, 0 FROM runs
    UNION ALL
    SELECT (SELECT max(seq) FROM runs WHERE seq < block.n << 11) >> 11,
           found + (SELECT count(*) FROM runs WHERE seq >> 11 = block.n AND key = ?3 AND key <> '' AND seq < ?1)
    FROM block WHERE block.n IS NOT NULL AND found < ?2
)
SELECT r.seq, r.workflow, r.key,
       CASE WHEN r.state <> 'open' THEN r.state
            WHEN EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq) THEN 'executing'
            WHEN r.parked IN ('wait', 'retry', 'aside') THEN 'parked'
            ELSE 'queued' END
FROM block CROSS JOIN runs AS r ON r.seq >> 11 = block.n AND r.key = ?3 AND r.key <> '' AND r.seq < ?1
ORDER BY r.seq DESC LIMIT ?2

-- name: open_of_key
WITH RECURSIVE block (n, found) AS (
    SELECT (min(max(seq), 9223372036854775807 - 1)) >> 11, 0 FROM runs
    UNION ALL
    SELECT (SELECT max(seq) FROM runs WHERE seq < block.n << 11) >> 11,
           found + (SELECT count(*) FROM runs WHERE seq >> 11 = block.n AND key = ?2 AND key <> '' AND seq < 9223372036854775807)
    FROM block WHERE block.n IS NOT NULL AND found < ?3
)
SELECT r.run_id
FROM (
    SELECT r.run_id, r.workflow, r.state
    FROM block CROSS JOIN runs AS r ON r.seq >> 11 = block.n AND r.key = ?2 AND r.key <> ''
    ORDER BY r.seq DESC LIMIT ?3
) AS r
WHERE r.state = 'open' AND r.workflow = ?1

-- name: unusual
SELECT r.seq, r.workflow, r.key, r.state
FROM runs AS r
WHERE r.state = ?3 AND r.state <> 'open' AND r.state <> 'completed' AND r.seq < ?1
ORDER BY r.seq DESC LIMIT ?2

-- name: executing
SELECT r.seq, r.workflow, r.key, 'executing'
FROM leases AS l JOIN runs AS r ON r.seq = l.seq WHERE l.seq < ?1 ORDER BY l.seq DESC LIMIT ?2

-- name: not_open
-- Of these runs those that have ended, and those that are not there (state NULL).
SELECT j.value, r.state, r.result, r.error FROM json_each(?1) AS j LEFT JOIN runs AS r ON r.run_id = j.value
WHERE r.state IS NOT 'open'

-- name: buffers
SELECT workflow, text, count, bytes, opened_at, due, stamped FROM buffers
WHERE ?1 IS NULL OR workflow = ?1 ORDER BY due, id LIMIT ?2

-- name: workers
SELECT w.worker_id, w.incarnation, w.serves, w.started_at, w.expires_at, w.facts,
       w.limiters, w.limiters_number, (SELECT count(*) FROM leases AS l WHERE l.worker = w.incarnation)
FROM workers AS w ORDER BY w.worker_id, w.incarnation

-- name: schedules
SELECT workflow, number, schedule, wall_due FROM schedules ORDER BY workflow, number
