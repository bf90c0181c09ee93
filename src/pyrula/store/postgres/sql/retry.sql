-- name: runs
SELECT r.run_id, r.seq,
       CASE WHEN r.state <> 'open' THEN r.state
            WHEN EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq) THEN 'executing'
            WHEN r.parked IN ('wait', 'retry', 'aside') THEN 'parked'
            ELSE 'queued' END,
       CASE WHEN r.state = 'open' THEN r.parked END
FROM unnest($1::text[]) AS u (run_id) JOIN runs AS r ON r.run_id = u.run_id

-- name: reopen
UPDATE runs SET state = 'open', attempt = attempt + 1, finished_at = NULL, lane = $2::bytea WHERE seq = $1::bigint

-- name: unpark
UPDATE runs SET parked = NULL, code = NULL WHERE seq = $1::bigint
