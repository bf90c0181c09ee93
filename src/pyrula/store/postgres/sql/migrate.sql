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

-- name: to_7
-- Gates count the lanes that name them. What lanes that were swept have left behind is to go in time. Differs: SQLite's is
-- to_4.
ALTER TABLE gates ADD COLUMN lanes bigint NOT NULL DEFAULT 0;
UPDATE gates AS g SET lanes = n.lanes, v = g.v + 1
FROM (SELECT substring(l.gates FROM 16 * i.at + 1 FOR 16) AS gate, count(*) AS lanes
      FROM lanes AS l CROSS JOIN LATERAL generate_series(0, length(l.gates) / 16 - 1) AS i (at) GROUP BY 1) AS n
WHERE n.gate = g.id;
CREATE TABLE unused (id bytea PRIMARY KEY, since bigint NOT NULL, vtime bigint)
WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX unused_since ON unused (since);
INSERT INTO unused (id, since)
SELECT g.id, c.time FROM gates AS g CROSS JOIN (SELECT time FROM clock ORDER BY number DESC LIMIT 1) AS c
WHERE g.lanes = 0 AND g.kind < 2 AND g.key <> '';
INSERT INTO unused (id, since, vtime)
SELECT u.id, c.time, u.vtime FROM units AS u CROSS JOIN (SELECT time FROM clock ORDER BY number DESC LIMIT 1) AS c
WHERE u.workflow <> ''
