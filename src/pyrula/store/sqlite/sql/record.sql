-- name: lease
SELECT seq, epoch, worker FROM leases WHERE seq = ?1 AND epoch = ?2 AND worker = ?3

-- name: existing
SELECT seq, branch, number, kind, name, status, value, due, settled FROM steps
WHERE seq = ?1 AND branch = ?2 AND number = ?3

-- name: entry
INSERT INTO steps (seq, branch, number, kind, name, status, value, due, settled, at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)

-- name: log
SELECT branch, number, kind, name, status, value, due, settled FROM steps WHERE seq = ?1

-- name: logs
SELECT seq, branch, number, kind, name, status, value, due, settled FROM steps WHERE seq = ?1
