-- name: look
-- How far one batch goes, however many of these runs have ended.
SELECT max(seq), count(*)
FROM (SELECT seq FROM runs WHERE workflow = $1::text AND seq > $2::bigint ORDER BY seq LIMIT $3::bigint) AS r

-- name: queued
SELECT r.seq, r.lane, r.params, r.priority, r.stamp, r.keys, r.key
FROM runs AS r
WHERE r.workflow = $1::text AND r.seq > $2::bigint AND r.seq <= $3::bigint AND r.state = 'open'
  AND (r.parked IS NULL OR r.parked IN ('delay', 'later'))
  AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq)
  AND NOT EXISTS (SELECT 1 FROM slots AS s WHERE s.seq = r.seq)
ORDER BY r.seq

-- name: run
-- Differs: where it is listed by its key as well.
WITH u AS (
         SELECT u.*, r.key AS old_key
         FROM unnest($1::bigint[], $2::bytea[], $3::text[], $4::text[], $5::bigint[]) AS u (seq, stamp, keys, key, priority)
         JOIN runs AS r ON r.seq = u.seq),
     away AS (
         DELETE FROM run_keys AS k USING u WHERE k.key = u.old_key AND k.seq = u.seq AND u.old_key <> u.key),
     there AS (INSERT INTO run_keys (key, seq) SELECT u.key, u.seq FROM u WHERE u.old_key <> u.key AND u.key <> '')
UPDATE runs AS r SET stamp = u.stamp, keys = u.keys, key = u.key, priority = u.priority
FROM u WHERE r.seq = u.seq

-- name: anew
WITH anew AS (
         UPDATE lanes AS l SET wait_seq = 0, v = l.v + 1
         WHERE l.id = $1::bytea AND l.state = 2 AND l.wait_seq = $2::bigint
         RETURNING l.gate, l.wait_vtime)
UPDATE gates AS g SET low_vtime = anew.wait_vtime, low_seq = 0, v = g.v + 1
FROM anew CROSS JOIN LATERAL (SELECT x.ctid AS at FROM gates AS x WHERE x.id = anew.gate ORDER BY x.v DESC LIMIT 1) AS newest
WHERE g.ctid = newest.at AND (anew.wait_vtime, 0) < (g.low_vtime, g.low_seq)

