-- name: due
SELECT workflow, number, schedule, submission, wall_due FROM schedules
WHERE wall_due <= $1::bigint ORDER BY wall_due, workflow, number LIMIT $2::bigint

-- name: next
UPDATE schedules AS s SET wall_due = u.wall_due
FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS u (workflow, number, wall_due)
WHERE s.workflow = u.workflow AND s.number = u.number

-- name: of
SELECT number, schedule, wall_due FROM schedules WHERE workflow = $1::text

-- name: drop
DELETE FROM schedules WHERE workflow = $1::text

-- name: put
INSERT INTO schedules (workflow, number, schedule, submission, wall_due)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bigint[])

-- name: served
SELECT DISTINCT serves FROM workers
