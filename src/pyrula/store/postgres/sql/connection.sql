-- name: begin_locked
-- Differs: several statements in one round trip. The lock first, then the time: whoever waited for the lock must not go
-- by a time read before. A plan is made once and kept, maybe while the tables are empty: so it may not scan them, nor sort
-- what an index has in order; and it is for any parameters, as a few statements would else be planned anew each time.
-- READ COMMITTED, whatever is the server's or the role's usual level: else all would be as it was before the lock was free.
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT set_config('search_path', '"{schema}"', true), set_config('lock_timeout', '2s', true),
       set_config('statement_timeout', '2s', true), set_config('idle_in_transaction_session_timeout', '2s', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_sort', 'off', true), set_config('jit', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true);
SELECT pg_advisory_xact_lock({lock});
SELECT number, time, wall, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
       EXISTS (SELECT 1 FROM arrivals AS a WHERE a.xid >= c.inbox)::integer
FROM clock AS c ORDER BY number DESC LIMIT 1

-- name: arrive
-- Timers that were set beside the lock, brought to where turns look; what was due meanwhile is due now.
WITH last AS (SELECT inbox, timers FROM clock ORDER BY number DESC LIMIT 1),
     arrived AS (
         DELETE FROM arrivals WHERE ctid = ANY(ARRAY(
             SELECT a.ctid FROM arrivals AS a
             WHERE a.xid >= (SELECT inbox FROM last) ORDER BY a.xid, a.id LIMIT 20000))
         RETURNING wall, due, seq, kind),
     walled AS (INSERT INTO wall_timers (wall_due, seq) SELECT due, seq FROM arrived WHERE wall ON CONFLICT DO NOTHING)
INSERT INTO timers (due, seq, kind)
SELECT greatest(due, (SELECT timers FROM last)), seq, kind FROM arrived WHERE NOT wall
ON CONFLICT DO NOTHING

-- name: begin
-- Beside the lock: what only appends.
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT set_config('search_path', '"{schema}"', true), set_config('lock_timeout', '10s', true),
       set_config('statement_timeout', '10s', true), set_config('idle_in_transaction_session_timeout', '10s', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_sort', 'off', true), set_config('jit', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true);
SELECT number, time, wall, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 0, 0
FROM clock ORDER BY number DESC LIMIT 1

-- name: begin_read
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT set_config('search_path', '"{schema}"', true), set_config('statement_timeout', '60s', true),
       set_config('idle_in_transaction_session_timeout', '10s', true), set_config('jit', 'off', true);
SELECT number, time, wall, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 0, 0
FROM clock ORDER BY number DESC LIMIT 1

-- name: tick
-- Differs: one row per commit instead of one that is updated. $4: every transaction before it is over. The places move
-- past what this transaction has dealt with; least and greatest pass over NULL.
WITH kept AS (INSERT INTO commits (token, at) VALUES ($5::bytea, $2::bigint)),
     last AS (SELECT * FROM clock ORDER BY number DESC LIMIT 1)
INSERT INTO clock (number, time, wall, inbox, dirty, timers, wakes)
SELECT $1::bigint, $2::bigint, $3::bigint,
       greatest(last.inbox, least($4::bigint,
           (SELECT i.xid FROM inbox AS i WHERE i.xid >= last.inbox ORDER BY i.xid, i.id LIMIT 1),
           (SELECT a.xid FROM arrivals AS a WHERE a.xid >= last.inbox ORDER BY a.xid, a.id LIMIT 1))),
       coalesce((SELECT g.dirty FROM gates AS g WHERE g.dirty > 0 AND g.dirty >= last.dirty ORDER BY g.dirty LIMIT 1),
                (SELECT last_value FROM marks)),
       greatest(last.timers, least($2::bigint,
           (SELECT t.due FROM timers AS t WHERE t.due >= last.timers ORDER BY t.due LIMIT 1))),
       greatest(last.wakes, least($2::bigint,
           (SELECT g.wake_at FROM gates AS g WHERE g.wake_at >= last.wakes ORDER BY g.wake_at LIMIT 1)))
FROM last

-- name: keep_token
INSERT INTO commits (token, at) VALUES ($1::bytea, $2::bigint)

-- name: claim_token
-- Waits for a transaction that has the token and is not over.
INSERT INTO commits (token, at) VALUES ($1::bytea, $2::bigint) ON CONFLICT DO NOTHING RETURNING 1

-- name: forget
-- Answers that nobody asks for any more, and what the clock showed long ago.
WITH clock_rows AS (DELETE FROM clock WHERE number < $1::bigint - 1000),
     pass_rows AS (DELETE FROM passes WHERE turn < (SELECT max(turn) FROM passes) - 1000)
DELETE FROM commits WHERE at < $2::bigint - 600000000

-- name: create
INSERT INTO meta (one, version, store, shard, shards)
VALUES (1, $1::integer, $2::text, $3::integer, $4::integer)

-- name: start_clock
WITH pass AS (INSERT INTO passes (turn, vtime) VALUES (0, 0))
INSERT INTO clock (number, time, wall, inbox, dirty, timers, wakes) VALUES (1, $1::bigint, $1::bigint, 0, 0, 0, 0)

-- name: identity
SELECT version, store, shard, shards FROM meta
