-- name: overrides
SELECT gate, every, key, kind, number, expires_at FROM overrides WHERE expires_at IS NULL OR expires_at > ?1

-- name: set
INSERT INTO overrides (gate, every, key, kind, number, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (gate, every, key, kind) DO UPDATE SET number = excluded.number, expires_at = excluded.expires_at

-- name: remove
DELETE FROM overrides WHERE gate = ?1 AND every = ?2 AND key = ?3 AND kind = ?4

-- name: remove_exceptions
-- Keys that were let out of a pause of the whole gate.
DELETE FROM overrides WHERE gate = ?1 AND every = 0 AND kind = 'pause' AND number = '0'

-- name: lapsed
DELETE FROM overrides WHERE expires_at <= ?1 RETURNING gate, every, key

-- name: reopen
UPDATE gates SET paused = 0, closed_by = NULL WHERE name = ?1 AND key = ?2 AND kind < 2 AND paused > ?3

-- name: dirty
UPDATE gates SET dirty = 1 WHERE name = ?1 AND kind < 2 AND waiting > 0

-- name: dirty_key
UPDATE gates SET dirty = 1 WHERE name = ?1 AND key = ?2 AND kind < 2 AND waiting > 0

-- name: mark
UPDATE meta SET steering = steering + 1

-- name: kinds
SELECT DISTINCT kind FROM (SELECT kind FROM gates WHERE name = ?1 AND kind < 2 LIMIT 1000)

-- name: stamps
-- Stamps are as many as there were declarations, not as runs.
SELECT stamp FROM stamps LIMIT 10000

-- name: declarations
SELECT declaration FROM definitions
