-- name: seq
SELECT seq FROM runs WHERE run_id = $1::text

-- name: run
SELECT r.seq, r.run_id, r.workflow,
       CASE WHEN r.state <> 'open' THEN r.state
            WHEN l.seq IS NOT NULL THEN 'executing'
            WHEN r.parked IN ('wait', 'retry', 'aside') THEN 'parked'
            ELSE 'queued' END,
       r.params, r.result, r.error, r.attempt, r.priority, r.submitted_at, r.wall_submitted,
       coalesce(r.started_at, l.claimed_at), r.finished_at, coalesce(w.worker_id, r.worker), s.stamp, r.keys
FROM unnest($1::bigint[]) AS u (seq)
JOIN runs AS r ON r.seq = u.seq
JOIN stamps AS s ON s.id = r.stamp
LEFT JOIN leases AS l ON l.seq = r.seq
LEFT JOIN workers AS w ON w.incarnation = l.worker

-- name: all
SELECT r.seq, r.workflow, r.key,
       CASE WHEN r.state <> 'open' THEN r.state
            WHEN EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq) THEN 'executing'
            WHEN r.parked IN ('wait', 'retry', 'aside') THEN 'parked'
            ELSE 'queued' END
FROM runs AS r WHERE r.seq < $1::bigint ORDER BY r.seq DESC LIMIT $2::bigint

-- name: of_workflow
SELECT r.seq, r.workflow, r.key,
       CASE WHEN r.state <> 'open' THEN r.state
            WHEN EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq) THEN 'executing'
            WHEN r.parked IN ('wait', 'retry', 'aside') THEN 'parked'
            ELSE 'queued' END
FROM runs AS r WHERE r.workflow = $3::text AND r.seq < $1::bigint ORDER BY r.seq DESC LIMIT $2::bigint

-- name: of_key
SELECT r.seq, r.workflow, r.key,
       CASE WHEN r.state <> 'open' THEN r.state
            WHEN EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq) THEN 'executing'
            WHEN r.parked IN ('wait', 'retry', 'aside') THEN 'parked'
            ELSE 'queued' END
FROM run_keys AS k JOIN runs AS r ON r.seq = k.seq
WHERE k.key = $3::text AND k.seq < $1::bigint ORDER BY k.seq DESC LIMIT $2::bigint

-- name: open_of_key
SELECT r.run_id
FROM (SELECT seq FROM run_keys WHERE key = $2::text ORDER BY seq DESC LIMIT $3::bigint) AS k JOIN runs AS r ON r.seq = k.seq
WHERE r.state = 'open' AND r.workflow = $1::text

-- name: unusual
SELECT r.seq, r.workflow, r.key, r.state
FROM runs AS r
WHERE r.state = $3::text AND r.state IN ('failed', 'cancelled', 'expired') AND r.seq < $1::bigint
ORDER BY r.seq DESC LIMIT $2::bigint

-- name: executing
SELECT r.seq, r.workflow, r.key, 'executing'
FROM leases AS l JOIN runs AS r ON r.seq = l.seq WHERE l.seq < $1::bigint ORDER BY l.seq DESC LIMIT $2::bigint

-- name: not_open
-- Of these runs those that have ended, and those that are not there (state NULL).
SELECT u.run_id, r.state, r.result, r.error
FROM unnest($1::text[]) AS u (run_id)
LEFT JOIN LATERAL (SELECT * FROM runs AS x WHERE x.run_id = u.run_id OFFSET 0) AS r ON true
WHERE r.state IS DISTINCT FROM 'open'

-- name: ended_since
-- Differs: of up to $2 runs that ended at $1 or later, the first first, what they ended with; but for those that are large,
-- which may be nobody's here. SQLite looks at each run by its id.
SELECT r.run_id, r.state, e.small, CASE WHEN e.small = 1 THEN CASE WHEN r.state = 'completed' THEN r.result ELSE r.error END END
FROM runs AS r
CROSS JOIN LATERAL (
    SELECT (coalesce(octet_length(r.result), 0) + coalesce(octet_length(r.error), 0) <= 1000)::integer AS small) AS e
WHERE r.finished_at >= $1::bigint ORDER BY r.finished_at LIMIT $2::bigint

-- name: buffers
SELECT workflow, text, count, bytes, opened_at, due, stamped FROM buffers
WHERE $1::text IS NULL OR workflow = $1::text ORDER BY due, id LIMIT $2::bigint

-- name: workers
SELECT w.worker_id, w.incarnation, w.serves, w.started_at, w.expires_at, w.facts,
       w.limiters, w.limiters_number, (SELECT count(*) FROM leases AS l WHERE l.worker = w.incarnation)
FROM workers AS w ORDER BY w.worker_id, w.incarnation

-- name: schedules
SELECT workflow, number, schedule, wall_due FROM schedules ORDER BY workflow, number
