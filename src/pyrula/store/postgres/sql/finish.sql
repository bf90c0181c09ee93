-- name: run
-- $5 and $6 are NULL for a run that ends without having been executing.
UPDATE runs AS r
SET state = u.state, result = u.result, error = u.error, worker = coalesce(u.worker, r.worker),
    started_at = coalesce(r.started_at, u.started_at), finished_at = u.finished_at, parked = NULL, code = NULL
FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::bytea[], $5::text[], $6::bigint[], $7::bigint[])
  AS u (seq, state, result, error, worker, started_at, finished_at)
WHERE r.seq = u.seq AND r.state = 'open'
RETURNING r.run_id, r.parent

-- name: slots
SELECT gate, seq, held FROM slots WHERE seq = ANY($1::bigint[])

-- name: holders
-- Those of these runs that keep a slot while parked.
SELECT seq FROM slots WHERE seq = ANY($1::bigint[]) AND held = 1

-- name: leave_all
DELETE FROM slots WHERE seq = ANY($1::bigint[]) AND held = 0 RETURNING gate

-- name: leave
DELETE FROM slots AS s USING unnest($1::bytea[], $2::bigint[]) AS u (gate, seq) WHERE s.gate = u.gate AND s.seq = u.seq

-- name: free
-- A gate that nobody waits at need not be looked at.
UPDATE gates AS g
SET in_use = g.in_use - n.n, dirty = CASE WHEN g.waiting > 0 THEN nextval('marks') ELSE 0 END, v = g.v + 1
FROM unnest($1::bytea[], $2::bigint[]) AS n (id, n)
CROSS JOIN LATERAL (SELECT x.ctid AS at FROM gates AS x WHERE x.id = n.id ORDER BY x.v DESC LIMIT 1) AS newest
WHERE g.ctid = newest.at
