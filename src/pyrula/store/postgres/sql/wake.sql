-- name: sleep
-- Differs: who waits for news on a channel of its own. pid: of its listening connection, to tell the living.
INSERT INTO sleepers (name, worker, pid, since) VALUES ($1::text, $2::integer, $3::bigint, $4::bigint)
ON CONFLICT (name, worker) DO UPDATE SET pid = excluded.pid, since = excluded.since

-- name: rise
DELETE FROM sleepers WHERE name = $1::text AND worker = $2::integer

-- name: one
-- Wakes the worker that sleeps longest, and drops those that died asleep. Outside any transaction of work: a commit with
-- a NOTIFY waits for every other one of the server.
WITH dead AS (
         DELETE FROM "{schema}".sleepers AS s
         WHERE NOT EXISTS (SELECT 1 FROM pg_stat_get_activity(s.pid::integer))),
     next AS (
         SELECT s.name FROM "{schema}".sleepers AS s
         WHERE s.worker = 1 AND EXISTS (SELECT 1 FROM pg_stat_get_activity(s.pid::integer))
         ORDER BY s.since LIMIT 1 FOR UPDATE SKIP LOCKED),
     woken AS (DELETE FROM "{schema}".sleepers AS s USING next WHERE s.worker = 1 AND s.name = next.name RETURNING s.name)
SELECT pg_notify('{channel}_' || name, 'work') FROM woken

-- name: serving
-- Of each of these workflows a few workers that have much room, whoever sleeps longest; each process knows its own.
SELECT pg_notify('{channel}', few.incarnation)
FROM (
    SELECT DISTINCT w.incarnation FROM unnest($1::text[]) AS u (workflow)
    CROSS JOIN LATERAL (
        SELECT v.incarnation FROM "{schema}".workers AS v
        WHERE EXISTS (SELECT 1 FROM json_array_elements_text(v.serves::json) AS s (name) WHERE s.name = u.workflow)
        ORDER BY (SELECT count(*) FROM "{schema}".leases AS l WHERE l.worker = v.incarnation), v.expires_at DESC
        LIMIT 3) AS w
) AS few

-- name: all
-- Everybody: work was left lying by whoever was woken for it.
WITH woken AS (DELETE FROM "{schema}".sleepers WHERE worker = 1 RETURNING name)
SELECT pg_notify('{channel}_' || name, 'work') FROM woken

-- name: clients
-- Who waits for runs to end, but for whoever tells; they stay written down until they wait no more.
SELECT pg_notify('{channel}_' || name, 'end') FROM "{schema}".sleepers WHERE worker = 0 AND name <> $1::text

-- name: signals
-- Workers that have news of runs they execute; each process knows its own.
SELECT pg_notify('{channel}', l.worker)
FROM (SELECT DISTINCT worker FROM "{schema}".leases WHERE signal IN (1, 2, 3) LIMIT 1000) AS l

-- name: configured
-- Workers whose limiters were changed from elsewhere; each process knows its own.
SELECT pg_notify('{channel}', incarnation) FROM "{schema}".workers WHERE limiters IS NOT NULL

-- name: waiting
-- Whether bells or timers that were set beside the lock still lie where they were put.
SELECT 1
FROM (SELECT inbox FROM "{schema}".clock ORDER BY number DESC LIMIT 1) AS last
WHERE EXISTS (SELECT 1 FROM "{schema}".inbox AS i WHERE i.xid >= last.inbox)
   OR EXISTS (SELECT 1 FROM "{schema}".arrivals AS a WHERE a.xid >= last.inbox)

-- name: beat
UPDATE "{schema}".workers SET expires_at = lease + (
    SELECT c.time + greatest(0, coalesce($2::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) - c.wall)
    FROM "{schema}".clock AS c ORDER BY c.number DESC LIMIT 1)
WHERE incarnation = $1::text

-- name: look
-- What a turn without outcomes would have to do, found out without the lock: for a worker that sleeps, mostly nothing.
WITH last AS (
    SELECT c.inbox, c.dirty, c.timers, c.wakes, w.wall, w.wall < c.wall AS set_back, c.time + greatest(0, w.wall - c.wall) AS now
    FROM "{schema}".clock AS c,
         (SELECT coalesce($4::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS wall) AS w
    ORDER BY c.number DESC LIMIT 1
)
SELECT last.now, last.wall,
       (last.set_back
        OR NOT EXISTS (SELECT 1 FROM "{schema}".workers
                    WHERE incarnation = $1::text AND expires_at - last.now >= lease / 2 AND limiters_number <= $5::bigint)
        OR EXISTS (SELECT 1 FROM "{schema}".leases WHERE worker = $1::text AND signal IN (1, 2, 3))
        OR EXISTS (SELECT 1 FROM "{schema}".inbox WHERE xid >= last.inbox)
        OR EXISTS (SELECT 1 FROM "{schema}".arrivals WHERE xid >= last.inbox)
        OR ($3::integer = 1 AND EXISTS (SELECT 1 FROM "{schema}".gates WHERE dirty > 0 AND dirty >= last.dirty))
        OR ($3::integer = 1 AND EXISTS (
            SELECT 1 FROM unnest($2::text[]) AS s (workflow)
            CROSS JOIN generate_series(1, 5) AS p (priority)
            CROSS JOIN LATERAL (
                SELECT x.vtime FROM "{schema}".fronts AS x WHERE x.workflow = s.workflow AND x.priority = p.priority
                ORDER BY x.v DESC LIMIT 1) AS f
            JOIN "{schema}".units AS u
              ON u.workflow = s.workflow AND u.priority = p.priority AND u.ready > 0 AND u.vtime >= f.vtime)))::integer,
       EXISTS (SELECT 1 FROM "{schema}".suspects)::integer,
       EXISTS (SELECT 1 FROM "{schema}".runs WHERE parked = 'aside')::integer,
       (SELECT finished_at FROM "{schema}".runs
        WHERE finished_at >= $6::bigint AND (finished_at > $6::bigint OR seq > $7::bigint) ORDER BY finished_at LIMIT 1),
       CASE WHEN $3::integer = 1 THEN
           (SELECT g.wake_at FROM "{schema}".gates AS g WHERE g.wake_at >= last.wakes ORDER BY g.wake_at LIMIT 1) END,
       (SELECT t.due FROM "{schema}".timers AS t WHERE t.due >= last.timers ORDER BY t.due LIMIT 1),
       (SELECT min(due) FROM "{schema}".buffers),
       (SELECT min(expires_at) FROM "{schema}".overrides),
       (SELECT w.expires_at FROM "{schema}".workers AS w WHERE w.incarnation <> $1::text ORDER BY w.expires_at LIMIT 1),
       (SELECT min(wall_due) FROM "{schema}".wall_timers),
       (SELECT min(wall_due) FROM "{schema}".schedules)
FROM last
