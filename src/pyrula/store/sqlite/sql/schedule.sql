-- name: due
SELECT workflow, number, schedule, submission, wall_due FROM schedules
WHERE wall_due <= ?1 ORDER BY wall_due, workflow, number LIMIT ?2

-- name: next
UPDATE schedules SET wall_due = ?3 WHERE workflow = ?1 AND number = ?2

-- name: of
SELECT number, schedule, wall_due FROM schedules WHERE workflow = ?1

-- name: drop
DELETE FROM schedules WHERE workflow = ?1

-- name: put
INSERT INTO schedules (workflow, number, schedule, submission, wall_due) VALUES (?1, ?2, ?3, ?4, ?5)

-- name: served
SELECT DISTINCT serves FROM workers
