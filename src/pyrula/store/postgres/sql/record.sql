-- name: lease
-- Differs: held until the commit, so that a reaper and a late write of a worker that lost it can't both win.
SELECT l.seq, l.epoch, l.worker
FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS u (seq, epoch, worker)
JOIN leases AS l ON l.seq = u.seq AND l.epoch = u.epoch AND l.worker = u.worker
ORDER BY l.seq
FOR KEY SHARE OF l

-- name: existing
SELECT s.seq, s.branch, s.number, s.kind, s.name, s.status, s.value, s.due, s.settled
FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS u (seq, branch, number)
JOIN steps AS s ON s.seq = u.seq AND s.branch = u.branch AND s.number = u.number

-- name: entry
INSERT INTO steps (seq, branch, number, kind, name, status, value, due, settled, at)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::bigint[],
                     $9::bigint[], $10::bigint[])

-- name: log
SELECT branch, number, kind, name, status, value, due, settled FROM steps WHERE seq = $1::bigint

-- name: logs
SELECT s.seq, s.branch, s.number, s.kind, s.name, s.status, s.value, s.due, s.settled
FROM unnest($1::bigint[]) AS u (seq) JOIN steps AS s ON s.seq = u.seq
