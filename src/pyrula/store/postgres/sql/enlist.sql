-- name: submit
-- Differs: a submit as one statement, for a transaction that belongs to somebody else and may commit late. It waits for
-- nobody but another submit of the same run id. Whoever sleeps is told with the commit.
WITH time AS (
         SELECT c.time + greatest(0, w.wall - c.wall) AS now, w.wall
         FROM "{schema}".clock AS c,
              (SELECT coalesce($17::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS wall) AS w
         ORDER BY c.number DESC LIMIT 1),
     given AS (
         SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bigint[], $7::text[],
                              $8::text[], $9::text[], $10::text[], $11::bytea[], $12::bigint[], $13::bigint[],
                              $14::bigint[]) WITH ORDINALITY
           AS u (run_id, workflow, params, stamp, lane, priority, key, keys, parked, parent, context, delay, run_at,
                 expires_in, n)),
     run AS (
         INSERT INTO "{schema}".runs (seq, run_id, workflow, state, params, stamp, lane, priority, key, keys, attempt,
                                      parked, logged, parent, submitted_at, wall_submitted, context)
         SELECT nextval('"{schema}".seqs'), g.run_id, g.workflow, 'open', g.params, g.stamp, g.lane, g.priority, g.key,
                g.keys, 1, g.parked, 0, g.parent, time.now, time.wall, g.context
         FROM (SELECT * FROM given ORDER BY n) AS g, time
         ON CONFLICT (run_id) DO NOTHING
         RETURNING run_id, seq),
     keyed AS (
         INSERT INTO "{schema}".run_keys (key, seq) SELECT g.key, run.seq FROM run JOIN given AS g USING (run_id)
         WHERE g.key <> ''),
     born AS (SELECT g.*, run.seq, time.now FROM run JOIN given AS g USING (run_id), time),
     queued AS (
         INSERT INTO "{schema}".queue (lane, resumed, seq, stamp)
         SELECT lane, 0, seq, stamp FROM born WHERE delay IS NULL AND run_at IS NULL),
     rung AS (
         INSERT INTO "{schema}".inbox (lane, look, seq)
         SELECT lane, 0, min(seq) FROM born WHERE delay IS NULL AND run_at IS NULL GROUP BY lane),
     timed AS (
         INSERT INTO "{schema}".arrivals (wall, due, seq, kind)
         SELECT false, now + delay, seq, $15::integer FROM born WHERE delay IS NOT NULL
         UNION ALL SELECT true, run_at, seq, $15::integer FROM born WHERE run_at IS NOT NULL
         UNION ALL SELECT false, now + expires_in, seq, $16::integer FROM born WHERE expires_in IS NOT NULL),
     told AS MATERIALIZED (SELECT pg_notify('{channel}', 'work') FROM (SELECT 1 FROM born LIMIT 1) AS b)
SELECT born.run_id FROM born LEFT JOIN told ON true

-- name: existing
SELECT r.run_id, r.workflow, r.params
FROM unnest($1::text[]) AS u (run_id) JOIN "{schema}".runs AS r ON r.run_id = u.run_id
