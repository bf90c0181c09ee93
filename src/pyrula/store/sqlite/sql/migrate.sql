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

-- name: to_4
-- Gates count the lanes that name them. What lanes that were swept have left behind is to go in time.
ALTER TABLE gates ADD COLUMN lanes INTEGER NOT NULL DEFAULT 0;
WITH RECURSIVE named (gate, rest) AS (
    SELECT substr(gates, 1, 16), substr(gates, 17) FROM lanes WHERE gates <> x''
    UNION ALL
    SELECT substr(rest, 1, 16), substr(rest, 17) FROM named WHERE rest <> x''
)
UPDATE gates SET lanes = n.lanes
FROM (SELECT gate, count(*) AS lanes FROM named GROUP BY gate) AS n WHERE n.gate = gates.id;
CREATE TABLE unused (id BLOB PRIMARY KEY, since INTEGER NOT NULL, vtime INTEGER) STRICT, WITHOUT ROWID;
CREATE INDEX unused_since ON unused (since);
INSERT INTO unused (id, since)
SELECT id, (SELECT time FROM meta) FROM gates WHERE lanes = 0 AND kind < 2 AND key <> '';
INSERT INTO unused (id, since, vtime)
SELECT id, (SELECT time FROM meta), vtime FROM units WHERE workflow <> '';

-- name: to_5
-- Lanes, units and gates lie in the order in which they were made, not in that of digests; gates that are there by name.
CREATE TABLE new (
    id BLOB NOT NULL PRIMARY KEY, unit BLOB NOT NULL, workflow TEXT NOT NULL, priority INTEGER NOT NULL,
    gates BLOB NOT NULL, plan BLOB NOT NULL, state INTEGER NOT NULL, gate BLOB, wait_vtime INTEGER NOT NULL,
    wait_seq INTEGER NOT NULL, wait_stamp TEXT NOT NULL, resumed INTEGER NOT NULL, streak INTEGER NOT NULL
) STRICT;
INSERT INTO new (id, unit, workflow, priority, gates, plan, state, gate, wait_vtime, wait_seq, wait_stamp, resumed,
                 streak)
SELECT id, unit, workflow, priority, gates, plan, state, gate, wait_vtime, wait_seq, wait_stamp, resumed, streak
FROM lanes;
DROP TABLE lanes;
ALTER TABLE new RENAME TO lanes;
CREATE INDEX lanes_ready ON lanes (unit, wait_seq, id) WHERE state = 1;
CREATE INDEX lanes_waiting ON lanes (gate, workflow, wait_stamp, priority, wait_vtime, wait_seq, id) WHERE state = 2;
CREATE TABLE new (
    id BLOB NOT NULL PRIMARY KEY, workflow TEXT NOT NULL, priority INTEGER NOT NULL, vtime INTEGER NOT NULL,
    ready INTEGER NOT NULL
) STRICT;
INSERT INTO new (id, workflow, priority, vtime, ready)
SELECT id, workflow, priority, vtime, ready FROM units;
DROP TABLE units;
ALTER TABLE new RENAME TO units;
CREATE INDEX units_ready ON units (workflow, priority, vtime, id) WHERE ready > 0;
CREATE TABLE new (
    id BLOB NOT NULL PRIMARY KEY, name TEXT NOT NULL, key TEXT NOT NULL, kind INTEGER NOT NULL,
    in_use INTEGER NOT NULL DEFAULT 0, debt TEXT NOT NULL DEFAULT '0', at INTEGER NOT NULL DEFAULT 0,
    q INTEGER NOT NULL DEFAULT 1, paused INTEGER NOT NULL DEFAULT 0, closed_by TEXT,
    waiting INTEGER NOT NULL DEFAULT 0, dirty INTEGER NOT NULL DEFAULT 0, wake_at INTEGER,
    heralds TEXT NOT NULL DEFAULT '{}', starts INTEGER NOT NULL DEFAULT 0, lanes INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO new (id, name, key, kind, in_use, debt, at, q, paused, closed_by, waiting, dirty, wake_at, heralds,
                 starts, lanes)
SELECT id, name, key, kind, in_use, debt, at, q, paused, closed_by, waiting, dirty, wake_at, heralds, starts, lanes
FROM gates ORDER BY name, key;
DROP TABLE gates;
ALTER TABLE new RENAME TO gates;
CREATE INDEX gates_name ON gates (name, key);
CREATE INDEX gates_dirty ON gates (id) WHERE dirty = 1;
CREATE INDEX gates_wake ON gates (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX gates_slot ON gates (id) WHERE kind = 2;
