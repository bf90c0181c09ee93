-- name: overrides
SELECT gate, every, key, kind, number, expires_at FROM overrides WHERE expires_at IS NULL OR expires_at > $1::bigint

-- name: set
INSERT INTO overrides (gate, every, key, kind, number, expires_at)
VALUES ($1::text, $2::integer, $3::text, $4::text, $5::text, $6::bigint)
ON CONFLICT (gate, every, key, kind) DO UPDATE SET number = excluded.number, expires_at = excluded.expires_at

-- name: remove
DELETE FROM overrides WHERE gate = $1::text AND every = $2::integer AND key = $3::text AND kind = $4::text

-- name: remove_exceptions
-- Keys that were let out of a pause of the whole gate.
DELETE FROM overrides WHERE gate = $1::text AND every = 0 AND kind = 'pause' AND number = '0'

-- name: lapsed
DELETE FROM overrides WHERE expires_at <= $1::bigint RETURNING gate, every, key

-- name: reopen
UPDATE gates AS g SET paused = 0, closed_by = NULL, v = g.v + 1
FROM gate_names AS n WHERE n.name = $1::text AND n.key = $2::text AND g.id = n.id AND g.paused > $3::bigint

-- name: dirty
UPDATE gates AS g SET dirty = nextval('marks'), v = g.v + 1
FROM gate_names AS n WHERE n.name = $1::text AND g.id = n.id AND g.waiting > 0

-- name: dirty_key
UPDATE gates AS g SET dirty = nextval('marks'), v = g.v + 1
FROM gate_names AS n WHERE n.name = $1::text AND n.key = $2::text AND g.id = n.id AND g.waiting > 0

-- name: mark
-- Differs: nothing to count; a turn of another process reads the overrides anyway.
SELECT 1

-- name: kinds
SELECT DISTINCT kind FROM (SELECT kind FROM gate_names WHERE name = $1::text LIMIT 1000) AS g

-- name: stamps
-- Stamps are as many as there were declarations, not as runs.
SELECT stamp FROM stamps LIMIT 10000

-- name: declarations
SELECT declaration FROM definitions
