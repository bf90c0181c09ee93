-- name: timers
-- Differs: looks from the remembered time on, since before it there are only dead versions.
SELECT due, seq, kind FROM timers
WHERE due >= (SELECT timers FROM clock ORDER BY number DESC LIMIT 1) AND due <= $1::bigint
ORDER BY due, seq, kind LIMIT $2::bigint

-- name: wall_timers
SELECT wall_due, seq FROM wall_timers WHERE wall_due <= $1::bigint ORDER BY wall_due, seq LIMIT $2::bigint

-- name: drop_timer
DELETE FROM timers WHERE ctid = ANY(ARRAY(
    SELECT x.ctid FROM unnest($1::bigint[], $2::bigint[], $3::integer[]) AS u (due, seq, kind)
    CROSS JOIN LATERAL (
        SELECT t.ctid FROM timers AS t WHERE t.due = u.due AND t.seq = u.seq AND t.kind = u.kind OFFSET 0) AS x))

-- name: drop_wall_timer
DELETE FROM wall_timers WHERE ctid = ANY(ARRAY(
    SELECT x.ctid FROM unnest($1::bigint[], $2::bigint[]) AS u (wall_due, seq)
    CROSS JOIN LATERAL (
        SELECT t.ctid FROM wall_timers AS t WHERE t.wall_due = u.wall_due AND t.seq = u.seq OFFSET 0) AS x))

-- name: start
UPDATE runs AS r SET parked = NULL FROM unnest($1::bigint[]) AS u (seq)
WHERE r.seq = u.seq AND r.state = 'open' AND r.parked IN ('delay', 'retry', 'later')
RETURNING r.seq

-- name: expire
-- Counts only before the first start; a run that is executing has a lease.
SELECT lane FROM runs
WHERE seq = $1::bigint AND state = 'open' AND started_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.seq = $1::bigint)

-- name: next_due
SELECT (SELECT g.wake_at FROM gates AS g WHERE g.wake_at >= last.wakes ORDER BY g.wake_at LIMIT 1),
       (SELECT t.due FROM timers AS t WHERE t.due >= last.timers ORDER BY t.due LIMIT 1),
       (SELECT min(due) FROM buffers), (SELECT min(expires_at) FROM overrides),
       (SELECT w.expires_at FROM workers AS w WHERE w.incarnation <> $1::text ORDER BY w.expires_at LIMIT 1),
       EXISTS (SELECT 1 FROM runs WHERE parked = 'aside')::integer
FROM (SELECT wakes, timers FROM clock ORDER BY number DESC LIMIT 1) AS last

-- name: next_wall
SELECT (SELECT min(wall_due) FROM wall_timers), (SELECT min(wall_due) FROM schedules)
