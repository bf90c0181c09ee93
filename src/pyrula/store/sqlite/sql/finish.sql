-- name: run
-- ?5 and ?6 are NULL for a run that ends without having been executing.
UPDATE runs
SET state = ?2, result = ?3, error = ?4, worker = coalesce(?5, worker), started_at = coalesce(started_at, ?6),
    finished_at = ?7, parked = NULL, code = NULL
WHERE seq = ?1 AND state = 'open'

-- name: children
-- Of these runs those that are about to end and have a parent. Differs: there `run` returns them.
SELECT r.run_id, r.parent FROM json_each(?1) AS j CROSS JOIN runs AS r ON r.seq = j.value
WHERE r.parent IS NOT NULL AND r.state = 'open'

-- name: slots
SELECT gate, seq, held FROM slots WHERE seq = ?1

-- name: holders
-- Those of these runs that keep a slot while parked.
SELECT seq FROM slots WHERE seq = ?1 AND held = 1

-- name: leave_all
DELETE FROM slots WHERE seq = ?1 AND held = 0 RETURNING gate

-- name: leave
DELETE FROM slots WHERE gate = ?1 AND seq = ?2

-- name: free
-- A gate that nobody waits at need not be looked at.
UPDATE gates SET in_use = in_use - ?2, dirty = waiting > 0 WHERE id = ?1
