-- name: runs
SELECT r.seq, r.finished_at, EXISTS (SELECT 1 FROM runs AS p WHERE p.run_id = r.parent AND p.state = 'open')
FROM runs AS r
WHERE r.finished_at < $1::bigint AND r.finished_at >= $3::bigint AND (r.finished_at > $3::bigint OR r.seq > $4::bigint)
ORDER BY r.finished_at, r.seq LIMIT $2::bigint

-- name: steps
DELETE FROM steps WHERE seq = ANY($1::bigint[])

-- name: events
DELETE FROM events WHERE seq = ANY($1::bigint[])

-- name: event_ids
DELETE FROM event_ids WHERE seq = ANY($1::bigint[])

-- name: run
WITH listed AS (
    DELETE FROM run_keys AS k USING runs AS r WHERE r.seq = ANY($1::bigint[]) AND k.key = r.key AND k.seq = r.seq)
DELETE FROM runs WHERE seq = ANY($1::bigint[])

-- name: empty_lanes
-- A lane that is needed again is made again, out of the run that joins it. Differs: goes down from the place, to meet the
-- newest version of each first; and looks for runs and bells behind the known fronts.
WITH RECURSIVE near AS (
    (SELECT id, unit, gates, state, low, low_resumed, 1 AS n FROM lanes WHERE id < $1::bytea ORDER BY id DESC, v DESC LIMIT 1)
    UNION ALL
    SELECT l.* FROM near CROSS JOIN LATERAL (
        SELECT x.id, x.unit, x.gates, x.state, x.low, x.low_resumed, near.n + 1 FROM lanes AS x WHERE x.id < near.id
        ORDER BY x.id DESC, x.v DESC LIMIT 1
    ) AS l
    WHERE near.n < $2::bigint
)
SELECT l.id, l.unit, l.gates FROM near AS l
WHERE l.state = 0
  AND NOT EXISTS (SELECT 1 FROM queue AS q WHERE q.lane = l.id AND q.resumed = 0 AND q.seq >= l.low)
  AND NOT EXISTS (SELECT 1 FROM queue AS q WHERE q.lane = l.id AND q.resumed = 1 AND q.seq >= l.low_resumed)
  AND l.id NOT IN (
      SELECT i.lane FROM inbox AS i WHERE i.xid >= (SELECT inbox FROM clock ORDER BY number DESC LIMIT 1))

-- name: lane
DELETE FROM lanes WHERE id = ANY($1::bytea[])

-- name: slot_gates
-- Their key ends in the id of the run that held the slot, behind the digits of the gate's id.
DELETE FROM gates WHERE id IN (
    SELECT g.id FROM (SELECT * FROM gates WHERE kind = 2 AND id > $1::bytea ORDER BY id LIMIT $2::bigint) AS g
    WHERE g.lanes = 0 AND g.in_use = 0 AND g.waiting = 0 AND g.dirty = 0 AND g.wake_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.run_id = substr(g.key, 34) AND r.state = 'open')
)

-- name: unused_gate
-- A gate without a key is one row for good, and stays.
INSERT INTO unused (id, since)
SELECT g.id, u.since FROM unnest($1::bytea[], $2::bigint[]) AS u (id, since)
CROSS JOIN LATERAL (SELECT * FROM gates AS x WHERE x.id = u.id ORDER BY x.v DESC LIMIT 1) AS g
WHERE g.lanes = 0 AND g.kind < 2 AND g.key <> ''
ON CONFLICT (id) DO UPDATE SET since = excluded.since

-- name: unused_unit
INSERT INTO unused (id, since, vtime)
SELECT x.id, u.since, x.vtime FROM unnest($1::bytea[], $2::bigint[]) AS u (id, since)
CROSS JOIN LATERAL (SELECT * FROM units AS y WHERE y.id = u.id ORDER BY y.v DESC LIMIT 1) AS x
ON CONFLICT (id) DO UPDATE SET since = excluded.since, vtime = excluded.vtime

-- name: unused
SELECT id, vtime FROM unused WHERE since < $1::bigint ORDER BY since LIMIT $2::bigint

-- name: used
DELETE FROM unused WHERE id = ANY($1::bytea[])

-- name: spare_gates
-- Those of which a new row would say the same, but for a rate's debt. A rota without heralds is of a contest that is over.
SELECT g.id, g.debt, g.at, g.q
FROM unnest($1::bytea[], $2::bigint[]) AS u (id, now)
CROSS JOIN LATERAL (SELECT * FROM gates AS x WHERE x.id = u.id ORDER BY x.v DESC LIMIT 1) AS g
WHERE g.lanes = 0 AND g.in_use = 0 AND g.waiting = 0 AND g.dirty = 0 AND g.wake_at IS NULL
  AND (g.heralds = '{}' OR g.heralds LIKE '{"@%') AND g.paused <= u.now
  AND NOT EXISTS (SELECT 1 FROM overrides AS o WHERE o.gate = g.name AND o.every = 0 AND o.key = g.key)

-- name: gate
-- Differs: off the list of names, too.
WITH gone AS (DELETE FROM gates WHERE id = ANY($1::bytea[]) RETURNING id, name, key)
DELETE FROM gate_names AS n USING gone AS g WHERE n.name = g.name AND n.key = g.key AND n.id = g.id

-- name: unit
-- One that has started a run since has another virtual time, and a lane that will be swept.
DELETE FROM units AS x USING unnest($1::bytea[], $2::bigint[]) AS u (id, vtime)
WHERE x.id = u.id AND x.vtime = u.vtime AND x.ready = 0
