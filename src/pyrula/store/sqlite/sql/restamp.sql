-- name: look
-- How far one batch goes, however many of these runs have ended.
SELECT max(seq), count(*) FROM (SELECT seq FROM runs WHERE workflow = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3)

-- name: queued
SELECT r.seq, r.lane, r.params, r.priority, r.stamp, r.keys, r.key
FROM runs AS r
WHERE r.workflow = ?1 AND r.seq > ?2 AND r.seq <= ?3 AND r.state = 'open'
  AND (r.parked IS NULL OR r.parked IN ('delay', 'later'))
  AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.seq = r.seq)
  AND NOT EXISTS (SELECT 1 FROM slots AS s WHERE s.seq = r.seq)
ORDER BY r.seq

-- name: run
UPDATE runs SET stamp = ?2, keys = ?3, key = ?4, priority = ?5 WHERE seq = ?1

-- name: anew
UPDATE lanes SET wait_seq = 0 WHERE id = ?1 AND state = 2 AND wait_seq = ?2
