-- name: worker
INSERT INTO workers (incarnation, worker_id, lease, expires_at, started_at, serves, facts)
VALUES ($1::text, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::text, $7::bytea)
ON CONFLICT (incarnation) DO UPDATE
SET worker_id = excluded.worker_id, lease = excluded.lease, expires_at = excluded.expires_at,
    serves = excluded.serves, facts = excluded.facts

-- name: definition
INSERT INTO definitions (workflow, declaration, code, at) VALUES ($1::text, $2::bytea, $3::text, $4::bigint)
ON CONFLICT (workflow) DO UPDATE SET declaration = excluded.declaration, code = excluded.code, at = excluded.at

-- name: heartbeat
UPDATE workers SET expires_at = $2::bigint + lease WHERE incarnation = $1::text

-- name: declaration
SELECT declaration FROM definitions WHERE workflow = $1::text

-- name: report
UPDATE workers SET facts = $2::bytea WHERE incarnation = $1::text

-- name: serve
UPDATE workers SET serves = $2::text WHERE incarnation = $1::text
