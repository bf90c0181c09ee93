-- name: runs
SELECT r.seq FROM runs AS r
WHERE r.finished_at < $1::bigint
  AND NOT EXISTS (SELECT 1 FROM runs AS p WHERE p.run_id = r.parent AND p.state = 'open')
ORDER BY r.finished_at LIMIT $2::bigint

-- name: steps
DELETE FROM steps AS s USING unnest($1::bigint[]) AS u (seq) WHERE s.seq = u.seq

-- name: events
DELETE FROM events AS e USING unnest($1::bigint[]) AS u (seq) WHERE e.seq = u.seq

-- name: event_ids
DELETE FROM event_ids AS e USING unnest($1::bigint[]) AS u (seq) WHERE e.seq = u.seq

-- name: run
DELETE FROM runs AS r USING unnest($1::bigint[]) AS u (seq) WHERE r.seq = u.seq

-- name: empty_lanes
-- A lane that is needed again is made again, out of the run that joins it.
SELECT l.id FROM (
    SELECT DISTINCT ON (id) id, state FROM lanes WHERE id > $1::bytea ORDER BY id, v DESC LIMIT $2::bigint) AS l
WHERE l.state = 0
  AND NOT EXISTS (SELECT 1 FROM queue AS q WHERE q.lane = l.id)
  AND NOT EXISTS (SELECT 1 FROM inbox AS i WHERE i.lane = l.id)
  AND NOT EXISTS (SELECT 1 FROM bells AS b WHERE b.lane = l.id)

-- name: lane
DELETE FROM lanes AS l USING unnest($1::bytea[]) AS u (id) WHERE l.id = u.id

-- name: slot_gates
-- Their key ends in the id of the run that held the slot, behind the digits of the gate's id.
DELETE FROM gates WHERE id IN (
    SELECT g.id FROM (SELECT * FROM gates WHERE kind = 2 AND id > $1::bytea ORDER BY id LIMIT $2::bigint) AS g
    WHERE g.in_use = 0 AND g.waiting = 0 AND g.dirty = 0 AND g.wake_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.run_id = substr(g.key, 34) AND r.state = 'open')
)
