-- name: to_2
-- Slots are noted only of those that keep them while parked, and of their families.
ALTER TABLE gates ADD COLUMN IF NOT EXISTS closed_by text;
DELETE FROM slots AS s USING leases AS l WHERE l.seq = s.seq AND l.held = 0

-- name: to_3
-- Differs: SQLite keeps no plan for long. One that was made while the queue was empty could take this index for the one
-- of lanes, and walk over all that has left.
DROP INDEX IF EXISTS queue_seq

-- name: to_4
-- Differs: bells that a turn has no time for stay where they were rung, in order; kept in a table of their own by lane,
-- those that were answered would be walked over while an old snapshot is held open.
INSERT INTO inbox (lane, look, seq, seq_resumed) SELECT lane, look, seq, seq_resumed FROM bells;
DROP TABLE bells

-- name: to_5
-- Differs: SQLite keeps its index, which a run's end leaves alone.
CREATE TABLE run_keys (key text COLLATE "C" NOT NULL, seq bigint NOT NULL, PRIMARY KEY (key, seq));
INSERT INTO run_keys (key, seq) SELECT key, seq FROM runs WHERE key <> '' ORDER BY key, seq;
DROP INDEX IF EXISTS runs_key

-- name: to_6
-- Differs: SQLite keeps its index, which gets no entry where a gate is counted.
CREATE TABLE gate_names (
    name text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL, kind integer NOT NULL, id bytea NOT NULL,
    PRIMARY KEY (name, key, id));
INSERT INTO gate_names (name, key, kind, id) SELECT name, key, kind, id FROM gates WHERE kind < 2 ORDER BY name, key, id;
DROP INDEX IF EXISTS gates_name
