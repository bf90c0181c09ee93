-- name: runs
SELECT r.seq FROM runs AS r
WHERE r.finished_at < ?1
  AND NOT EXISTS (SELECT 1 FROM runs AS p WHERE p.run_id = r.parent AND p.state = 'open')
ORDER BY r.finished_at LIMIT ?2

-- name: steps
DELETE FROM steps WHERE seq = ?1

-- name: events
DELETE FROM events WHERE seq = ?1

-- name: event_ids
DELETE FROM event_ids WHERE seq = ?1

-- name: run
DELETE FROM runs WHERE seq = ?1

-- name: empty_lanes
-- A lane that is needed again is made again, out of the run that joins it.
SELECT id FROM (SELECT id, state FROM lanes WHERE id > ?1 ORDER BY id LIMIT ?2) AS l
WHERE state = 0
  AND NOT EXISTS (SELECT 1 FROM queue AS q WHERE q.lane = l.id)
  AND NOT EXISTS (SELECT 1 FROM inbox AS i WHERE i.lane = l.id)

-- name: lane
DELETE FROM lanes WHERE id = ?1

-- name: slot_gates
-- Their key ends in the id of the run that held the slot, behind the digits of the gate's id.
DELETE FROM gates WHERE id IN (
    SELECT g.id FROM (SELECT * FROM gates WHERE kind = 2 AND id > ?1 ORDER BY id LIMIT ?2) AS g
    WHERE g.in_use = 0 AND g.waiting = 0 AND g.dirty = 0 AND g.wake_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.run_id = substr(g.key, 34) AND r.state = 'open')
)
