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
