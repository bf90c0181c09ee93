-- name: lease
-- Only the live lease of this very claim counts.
SELECT seq, claimed_at, slots, held, signal FROM leases WHERE seq = ?1 AND epoch = ?2 AND worker = ?3

-- name: drop_lease
DELETE FROM leases WHERE seq = ?1

-- name: unseat
UPDATE runs SET parked = ?2, started_at = coalesce(started_at, ?3) WHERE seq = ?1

-- name: attempt
UPDATE runs SET attempt = attempt + 1, error = ?2 WHERE seq = ?1

-- name: drop_entry
DELETE FROM steps WHERE seq = ?1 AND branch = ?2 AND number = ?3

-- name: close_gate
-- The latest time wins, and with it the run that asked for it.
UPDATE gates
SET closed_by = CASE WHEN ?2 > paused THEN (SELECT run_id FROM runs WHERE seq = ?3) ELSE closed_by END,
    paused = max(paused, ?2), dirty = waiting > 0
WHERE id = ?1

-- name: aside
UPDATE runs SET error = ?2, code = ?3 WHERE seq = ?1

-- name: queue
INSERT INTO queue (lane, resumed, seq, stamp)
SELECT lane, ?2, seq, stamp FROM runs WHERE seq = ?1 AND state = 'open'
ON CONFLICT DO NOTHING
RETURNING lane

-- name: stamp
SELECT s.stamp, r.keys FROM runs AS r JOIN stamps AS s ON s.id = r.stamp WHERE r.seq = ?1
