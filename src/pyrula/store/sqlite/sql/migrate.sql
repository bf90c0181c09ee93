-- name: to_2
-- Slots are noted only of those that keep them while parked, and of their families; runs of a key are found by blocks.
ALTER TABLE gates ADD COLUMN closed_by TEXT;
DELETE FROM slots WHERE seq IN (SELECT seq FROM leases WHERE held = 0);
DROP INDEX runs_key;
CREATE INDEX runs_key ON runs (seq >> 11, key, seq) WHERE key <> '';

-- name: to_3
-- What an index holds is told without IN, which builds a table of its own for each row that is written.
DROP INDEX runs_unusual;
CREATE INDEX runs_unusual ON runs (state, seq) WHERE state <> 'open' AND state <> 'completed';
DROP INDEX runs_ended_otherwise;
CREATE INDEX runs_ended_otherwise ON runs (finished_at) WHERE state <> 'open' AND state <> 'completed';
DROP INDEX leases_signal;
CREATE INDEX leases_signal ON leases (worker) WHERE signal > 0 AND signal < 4;
