-- name: lease
-- Only the live lease of this very claim counts.
SELECT l.seq, l.claimed_at, l.slots, l.held, l.signal
FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS u (seq, epoch, worker)
CROSS JOIN LATERAL (SELECT * FROM leases AS x WHERE x.seq = u.seq OFFSET 0) AS l
WHERE l.epoch = u.epoch AND l.worker = u.worker

-- name: drop_lease
DELETE FROM leases WHERE seq = ANY($1::bigint[])

-- name: unseat
UPDATE runs AS r SET parked = u.parked, started_at = coalesce(r.started_at, u.claimed_at)
FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS u (seq, parked, claimed_at) WHERE r.seq = u.seq

-- name: attempt
UPDATE runs AS r SET attempt = r.attempt + 1, error = u.error
FROM unnest($1::bigint[], $2::bytea[]) AS u (seq, error) WHERE r.seq = u.seq

-- name: drop_entry
DELETE FROM steps AS s USING unnest($1::bigint[], $2::text[], $3::bigint[]) AS u (seq, branch, number)
WHERE s.seq = u.seq AND s.branch = u.branch AND s.number = u.number

-- name: close_gate
-- The latest time wins, and with it the run that asked for it.
UPDATE gates AS g
SET closed_by = CASE WHEN u.until > g.paused THEN (SELECT run_id FROM runs AS r WHERE r.seq = u.seq) ELSE g.closed_by END,
    paused = greatest(g.paused, u.until), dirty = CASE WHEN g.waiting > 0 THEN nextval('marks') ELSE 0 END, v = g.v + 1
FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS u (id, until, seq)
CROSS JOIN LATERAL (SELECT x.ctid AS at FROM gates AS x WHERE x.id = u.id ORDER BY x.v DESC LIMIT 1) AS newest
WHERE g.ctid = newest.at

-- name: aside
UPDATE runs AS r SET error = u.error, code = u.code
FROM unnest($1::bigint[], $2::bytea[], $3::text[]) AS u (seq, error, code) WHERE r.seq = u.seq

-- name: queue
-- Differs: rings as well, and tells from where on to look.
WITH put AS (
         INSERT INTO queue (lane, resumed, seq, stamp)
         SELECT r.lane, u.resumed, r.seq, r.stamp
         FROM unnest($1::bigint[], $2::integer[]) AS u (seq, resumed) JOIN runs AS r ON r.seq = u.seq
         WHERE r.state = 'open'
         ON CONFLICT DO NOTHING
         RETURNING lane, resumed, seq),
     rung AS (
         INSERT INTO inbox (lane, look, seq, seq_resumed)
         SELECT lane, 1, min(seq) FILTER (WHERE resumed = 0), min(seq) FILTER (WHERE resumed = 1) FROM put GROUP BY lane)
SELECT lane FROM put

-- name: stamp
SELECT s.stamp, r.keys FROM runs AS r JOIN stamps AS s ON s.id = r.stamp WHERE r.seq = $1::bigint
