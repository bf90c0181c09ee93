-- name: runs
SELECT r.seq, r.finished_at, EXISTS (SELECT 1 FROM runs AS p WHERE p.run_id = r.parent AND p.state = 'open')
FROM runs AS r
WHERE r.finished_at < ?1 AND (r.finished_at, r.seq) > (?3, ?4)
ORDER BY r.finished_at, r.seq LIMIT ?2

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
SELECT id, unit, gates FROM (SELECT id, unit, gates, state FROM lanes WHERE id > ?1 ORDER BY id LIMIT ?2) AS l
WHERE state = 0
  AND NOT EXISTS (SELECT 1 FROM queue AS q WHERE q.lane = l.id)
  AND NOT EXISTS (SELECT 1 FROM inbox AS i WHERE i.lane = l.id)

-- name: lane
DELETE FROM lanes WHERE id = ?1

-- name: slot_gates
-- Their key ends in the id of the run that held the slot, behind the digits of the gate's id.
DELETE FROM gates WHERE id IN (
    SELECT g.id FROM (SELECT * FROM gates WHERE kind = 2 AND id > ?1 ORDER BY id LIMIT ?2) AS g
    WHERE g.lanes = 0 AND g.in_use = 0 AND g.waiting = 0 AND g.dirty = 0 AND g.wake_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.run_id = substr(g.key, 34) AND r.state = 'open')
)

-- name: unused_gate
-- A gate without a key is one row for good, and stays.
INSERT INTO unused (id, since) SELECT id, ?2 FROM gates WHERE id = ?1 AND lanes = 0 AND kind < 2 AND key <> ''
ON CONFLICT (id) DO UPDATE SET since = excluded.since

-- name: unused_unit
INSERT INTO unused (id, since, vtime) SELECT id, ?2, vtime FROM units WHERE id = ?1
ON CONFLICT (id) DO UPDATE SET since = excluded.since, vtime = excluded.vtime

-- name: unused
SELECT id, vtime FROM unused WHERE since < ?1 ORDER BY since LIMIT ?2

-- name: used
DELETE FROM unused WHERE id = ?1

-- name: spare_gates
-- Those of which a new row would say the same, but for a rate's debt. A rota without heralds is of a contest that is over.
SELECT g.id, g.debt, g.at, g.q FROM gates AS g
WHERE g.id = ?1 AND g.lanes = 0 AND g.in_use = 0 AND g.waiting = 0 AND g.dirty = 0 AND g.wake_at IS NULL
  AND (g.heralds = '{}' OR g.heralds LIKE '{"@%') AND g.paused <= ?2
  AND NOT EXISTS (SELECT 1 FROM overrides AS o WHERE o.gate = g.name AND o.every = 0 AND o.key = g.key)

-- name: gate
DELETE FROM gates WHERE id = ?1

-- name: unit
-- One that has started a run since has another virtual time, and a lane that will be swept.
DELETE FROM units WHERE id = ?1 AND vtime = ?2 AND ready = 0
