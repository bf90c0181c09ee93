-- name: to_2
-- Slots are noted only of those that keep them while parked, and of their families; runs of a key are found by blocks.
ALTER TABLE gates ADD COLUMN closed_by TEXT;
DELETE FROM slots WHERE seq IN (SELECT seq FROM leases WHERE held = 0);
DROP INDEX runs_key;
CREATE INDEX runs_key ON runs (seq >> 11, key, seq) WHERE key <> '';
