-- name: to_2
-- Slots are noted only of those that keep them while parked, and of their families.
ALTER TABLE gates ADD COLUMN IF NOT EXISTS closed_by text;
DELETE FROM slots AS s USING leases AS l WHERE l.seq = s.seq AND l.held = 0

-- name: to_3
-- Differs: SQLite keeps no plan for long. One that was made while the queue was empty could take it for the one of lanes, and walk over all that has left.
DROP INDEX IF EXISTS queue_seq
