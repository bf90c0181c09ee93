-- name: worker
INSERT INTO workers (incarnation, worker_id, lease, expires_at, started_at, serves, facts)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (incarnation) DO UPDATE
SET worker_id = excluded.worker_id, lease = excluded.lease, expires_at = excluded.expires_at,
    serves = excluded.serves, facts = excluded.facts

-- name: definition
INSERT INTO definitions (workflow, declaration, code, at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (workflow) DO UPDATE SET declaration = excluded.declaration, code = excluded.code, at = excluded.at

-- name: heartbeat
UPDATE workers SET expires_at = ?2 + lease WHERE incarnation = ?1

-- name: declaration
SELECT declaration FROM definitions WHERE workflow = ?1

-- name: report
UPDATE workers SET facts = ?2 WHERE incarnation = ?1

-- name: serve
UPDATE workers SET serves = ?2 WHERE incarnation = ?1
