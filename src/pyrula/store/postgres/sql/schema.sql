-- name: schema
-- Differs from SQLite's in types, and for two facts of PostgreSQL: a writer may commit after one that began later, and
-- with an old snapshot held open (a backup) every version of a changed row stays in everybody's way. So:
-- * what others append (inbox, arrivals) carries its transaction's number, and is looked for from a remembered one on;
-- * rows that many turns change (lanes, units, gates) count their versions, v, in the key, and are read newest first;
-- * what every turn changes (clock, passes) is a new row each time;
-- * dirty gates, wake times and timers are looked for from a remembered place on (clock);
-- * so are the fronts of lines: runs in a lane (lanes.low), ready lanes of a unit (units.low), ready units of a workflow
--   (fronts), lanes that wait at a gate (gates.low_*). Each is a bound: nothing is before it. What comes in before it
--   lowers it first; the greatest bigint says that there is nothing at all.

CREATE TABLE meta (            -- one row
    one        integer PRIMARY KEY CHECK (one = 1),
    version    integer NOT NULL,
    store      text    NOT NULL,          -- id of the store, shared by its shards
    shard      integer NOT NULL,
    shards     integer NOT NULL
);

CREATE TABLE clock (           -- the newest row counts
    number     bigint  PRIMARY KEY,
    time       bigint  NOT NULL,          -- the store's time as last read …
    wall       bigint  NOT NULL,          -- … when the wall clock said this
    inbox      bigint  NOT NULL,          -- transactions before this one have nothing in inbox and arrivals any more
    dirty      bigint  NOT NULL,          -- no gate is dirty with a mark before this one
    timers     bigint  NOT NULL,          -- no timer is due before this
    wakes      bigint  NOT NULL           -- no gate is to be woken before this
);

CREATE TABLE passes (          -- the newest row counts: one for each turn that handed runs out
    turn       bigint  PRIMARY KEY,       -- its number: the epoch of its leases
    vtime      bigint  NOT NULL           -- virtual time of the unit picked last
);

CREATE TABLE commits (         -- tells whether a commit whose answer was lost has happened
    token      bytea   PRIMARY KEY,
    at         bigint  NOT NULL
);
CREATE INDEX commits_at ON commits (at);

CREATE TABLE sleepers (        -- processes that are to be told of news
    name       text    COLLATE "C" NOT NULL,     -- of the store object; ends the name of its channel
    worker     integer NOT NULL,          -- 1: a worker has room; 0: somebody waits for runs to end
    pid        bigint  NOT NULL,          -- the server's process behind its listening connection
    since      bigint  NOT NULL,
    PRIMARY KEY (name, worker)
) WITH (fillfactor = 50);

CREATE TABLE stamps (          -- immutable; many runs share one
    id         bytea   PRIMARY KEY,       -- digest
    stamp      bytea   NOT NULL
);

CREATE SEQUENCE seqs CACHE 1;  -- order of submission in this shard
CREATE TABLE runs (            -- inserted once, updated when it parks, retries or ends
    seq          bigint  PRIMARY KEY DEFAULT nextval('seqs'),
    run_id       text    COLLATE "C" NOT NULL,
    workflow     text    COLLATE "C" NOT NULL,
    state        text    COLLATE "C" NOT NULL,   -- open, completed, failed, cancelled, expired
    params       bytea   NOT NULL,
    stamp        bytea   NOT NULL,
    lane         bytea   NOT NULL,        -- where it queues now
    priority     bigint  NOT NULL,
    key          text    COLLATE "C" NOT NULL,   -- its unit's key, for listing
    keys         text    NOT NULL,        -- JSON array, aligned with stamp.gates
    attempt      bigint  NOT NULL,
    parked       text    COLLATE "C",     -- NULL, or why it is neither queued nor executing: delay, wait, retry, later, aside
    logged       bigint  NOT NULL,        -- number of settled log entries = order of the last one
    parent       text    COLLATE "C",
    submitted_at bigint  NOT NULL,
    wall_submitted bigint NOT NULL,
    started_at   bigint,
    finished_at  bigint,
    result       bytea,
    error        bytea,
    code         text,                    -- of a run set aside: the code that could not replay it
    worker       text,
    context      bytea,                   -- trace context, carried from the submit
    lapses       bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE UNIQUE INDEX runs_id ON runs (run_id);
CREATE INDEX runs_workflow ON runs (workflow, seq);
CREATE INDEX runs_parent ON runs (parent, seq) WHERE parent IS NOT NULL;
CREATE INDEX runs_parked ON runs (parked, seq) WHERE parked IS NOT NULL;
CREATE INDEX runs_unusual ON runs (state, seq) WHERE state IN ('failed', 'cancelled', 'expired');
CREATE INDEX runs_finished ON runs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX runs_ended_otherwise ON runs (finished_at) WHERE state IN ('failed', 'cancelled', 'expired');

CREATE TABLE run_keys (        -- runs by their unit's key, but for those of '': an index of runs would get an entry at each end, too
    key        text    COLLATE "C" NOT NULL,
    seq        bigint  NOT NULL,
    PRIMARY KEY (key, seq)
);

CREATE TABLE inbox (           -- bells rung by whoever appends: never waited for, so one lane may ring often
    xid        bigint  NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    id         bigint  GENERATED ALWAYS AS IDENTITY,
    lane       bytea   NOT NULL,
    look       integer NOT NULL,          -- 1: its head may be another
    seq        bigint,                    -- the first fresh run that joined …
    seq_resumed bigint,                   -- … and the first resumed one
    PRIMARY KEY (xid, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE TABLE arrivals (        -- timers set by whoever appends, on their way to timers and wall_timers
    xid        bigint  NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    id         bigint  GENERATED ALWAYS AS IDENTITY,
    wall       boolean NOT NULL,
    due        bigint  NOT NULL,
    seq        bigint  NOT NULL,
    kind       integer NOT NULL,
    PRIMARY KEY (xid, id)
);

CREATE TABLE queue (           -- runs that could start but for their gates
    lane       bytea   NOT NULL,
    resumed    integer NOT NULL,          -- 1: was parked or lapsed, takes slots but no token
    seq        bigint  NOT NULL,
    stamp      bytea   NOT NULL,
    PRIMARY KEY (lane, resumed, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);

CREATE TABLE lanes (
    id         bytea   NOT NULL,
    v          bigint  NOT NULL DEFAULT 0,
    unit       bytea   NOT NULL,
    workflow   text    COLLATE "C" NOT NULL,
    priority   bigint  NOT NULL,
    gates      bytea   NOT NULL,          -- the gate ids, concatenated
    plan       bytea   NOT NULL,          -- one byte a gate: index into stamp.gates, or 255 for a slot gate
    state      integer NOT NULL,          -- 0 empty, 1 ready, 2 waiting
    gate       bytea,                     -- waiting: where; ready: the gate that rang it
    wait_vtime bigint  NOT NULL,          -- its unit's when it began to wait
    wait_seq   bigint  NOT NULL,          -- seq of its head when it became ready or began to wait
    wait_stamp text    COLLATE "C" NOT NULL,     -- JSON of its head's number at that gate
    resumed    integer NOT NULL,          -- 1: it may have resumed runs
    streak     bigint  NOT NULL,          -- resumed starts in a row
    low        bigint  NOT NULL DEFAULT 0,       -- no fresh run of it is queued before
    low_resumed bigint NOT NULL DEFAULT 0,       -- nor a resumed one before
    PRIMARY KEY (id, v)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX lanes_ready ON lanes (unit, wait_seq, id) WHERE state = 1;
CREATE INDEX lanes_waiting ON lanes (gate, workflow, wait_stamp, priority, wait_vtime, wait_seq, id) WHERE state = 2;
CREATE INDEX lanes_line ON lanes (gate, wait_vtime, wait_seq) WHERE state = 2;

CREATE TABLE units (           -- a workflow's fairness key at one priority; workflow '': a clock of admission
    id         bytea   NOT NULL,
    v          bigint  NOT NULL DEFAULT 0,
    workflow   text    COLLATE "C" NOT NULL,
    priority   bigint  NOT NULL,
    vtime      bigint  NOT NULL,
    ready      bigint  NOT NULL,          -- ready lanes it has
    low        bigint  NOT NULL DEFAULT 0,       -- no ready lane of it has a head before
    PRIMARY KEY (id, v)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX units_ready ON units (workflow, priority, vtime, id) WHERE ready > 0;

CREATE TABLE fronts (          -- no ready unit of a workflow at a priority is before vtime
    workflow   text    COLLATE "C" NOT NULL,
    priority   bigint  NOT NULL,
    v          bigint  NOT NULL DEFAULT 0,
    vtime      bigint  NOT NULL,
    PRIMARY KEY (workflow, priority, v)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);

CREATE SEQUENCE marks CACHE 1; -- when a gate became dirty, against others
CREATE TABLE gates (
    id         bytea   NOT NULL,
    v          bigint  NOT NULL DEFAULT 0,
    name       text    COLLATE "C" NOT NULL,
    key        text    COLLATE "C" NOT NULL,
    kind       integer NOT NULL,          -- 0 limit, 1 rate, 2 private slot of a run that holds one
    in_use     bigint  NOT NULL DEFAULT 0,
    debt       text    NOT NULL DEFAULT '0',     -- decimal text: it passes 2^63
    at         bigint  NOT NULL DEFAULT 0,
    q          bigint  NOT NULL DEFAULT 1,
    paused     bigint  NOT NULL DEFAULT 0,       -- closed for this key by RetryAfter: until when
    closed_by  text,                             -- by which run
    waiting    bigint  NOT NULL DEFAULT 0,       -- lanes
    dirty      bigint  NOT NULL DEFAULT 0,       -- a mark; 0: clean
    wake_at    bigint,
    heralds    text    NOT NULL DEFAULT '{}',    -- JSON: workflow → the ready lane that this gate rang for it; behind them its rota (rows.py)
    low_vtime  bigint  NOT NULL DEFAULT 0,       -- no lane waits at it before (low_vtime, low_seq)
    low_seq    bigint  NOT NULL DEFAULT 0,
    starts     bigint  NOT NULL DEFAULT 0,       -- through this gate, ever: pages show how fast it grows
    lanes      bigint  NOT NULL DEFAULT 0,       -- that name it
    PRIMARY KEY (id, v)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX gates_dirty ON gates (dirty) WHERE dirty > 0;
CREATE INDEX gates_wake ON gates (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX gates_slot ON gates (id) WHERE kind = 2;

CREATE TABLE gate_names (      -- gates by name, but for private slots: an index of gates would get an entry with each version
    name       text    COLLATE "C" NOT NULL,
    key        text    COLLATE "C" NOT NULL,
    kind       integer NOT NULL,
    id         bytea   NOT NULL,
    PRIMARY KEY (name, key, id)
);

CREATE TABLE unused (          -- gates and units of lanes that were swept: they go when nothing comes back for them
    id         bytea   PRIMARY KEY,
    since      bigint  NOT NULL,          -- the last time that one of their lanes was swept
    vtime      bigint                     -- of a unit, then; NULL: a gate
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX unused_since ON unused (since);

CREATE TABLE slots (           -- of those that keep slots while parked, and of their families: every slot; others' leases name theirs
    gate       bytea   NOT NULL,
    seq        bigint  NOT NULL,
    held       integer NOT NULL,          -- 1: hold="run", kept while parked
    PRIMARY KEY (seq, gate)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX slots_gate ON slots (gate, seq);
CREATE INDEX slots_held ON slots (gate) WHERE held = 1;

CREATE TABLE suspects (        -- runs that keep a slot and were parked, until one look finds them waiting for no child
    seq        bigint PRIMARY KEY
);

CREATE TABLE leases (
    seq        bigint  PRIMARY KEY,
    epoch      bigint  NOT NULL,
    worker     text    COLLATE "C" NOT NULL,     -- incarnation
    claimed_at bigint  NOT NULL,
    resumed    integer NOT NULL,
    slots      bytea   NOT NULL,          -- the gates of which it took a slot, concatenated
    held       integer NOT NULL,          -- 1: its slots are noted in slots
    signal     integer NOT NULL DEFAULT 0 -- bits: 1 a wait was settled, 2 cancel, 4 the worker was told of it
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX leases_worker ON leases (worker, seq);
CREATE INDEX leases_signal ON leases (worker) WHERE signal IN (1, 2, 3);

CREATE TABLE workers (
    incarnation text   COLLATE "C" PRIMARY KEY,
    worker_id  text    COLLATE "C" NOT NULL,
    lease      bigint  NOT NULL,
    expires_at bigint  NOT NULL,
    started_at bigint  NOT NULL,
    serves     text    NOT NULL,          -- JSON array of workflow names
    facts      bytea   NOT NULL,          -- what it says of itself: limiters, host, process
    limiters   bytea,                     -- JSON: changes of its limiters, made from elsewhere, to be taken up
    limiters_number bigint NOT NULL DEFAULT 0 -- goes up with each such change
);
CREATE INDEX workers_expire ON workers (expires_at);

CREATE TABLE timers (
    due        bigint  NOT NULL,
    seq        bigint  NOT NULL,
    kind       integer NOT NULL,          -- 0 start (delay, retry, later), 1 wait (sleep, timeout), 2 expire
    PRIMARY KEY (due, seq, kind)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX timers_seq ON timers (seq);
CREATE TABLE wall_timers (     -- run_at: looks at the wall
    wall_due   bigint  NOT NULL,
    seq        bigint  NOT NULL,
    PRIMARY KEY (wall_due, seq)
);
CREATE INDEX wall_timers_seq ON wall_timers (seq);

CREATE TABLE steps (           -- the log
    seq        bigint  NOT NULL,
    branch     text    COLLATE "C" NOT NULL,
    number     bigint  NOT NULL,
    kind       text    NOT NULL,
    name       text    NOT NULL,
    status     text    COLLATE "C" NOT NULL,
    value      bytea,
    due        bigint,
    settled    bigint  NOT NULL,          -- its place in the order in which entries were settled; 0 while waiting
    at         bigint  NOT NULL,
    PRIMARY KEY (seq, branch, number)
);
CREATE INDEX steps_waiting ON steps (value) WHERE status = 'waiting' AND kind = 'child';   -- who waits for a child
CREATE INDEX steps_open ON steps (seq) WHERE status = 'waiting';

CREATE TABLE events (          -- sent to a run and not taken yet
    id         bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq        bigint  NOT NULL,
    name       text    COLLATE "C" NOT NULL,
    payload    bytea   NOT NULL,
    event_id   text
);
CREATE INDEX events_run ON events (seq, name, id);

CREATE TABLE event_ids (       -- of triggers and of events to runs: counts once, gets the first answer
    scope      text    COLLATE "C" NOT NULL,     -- workflow and key, or run
    event_id   text    COLLATE "C" NOT NULL,
    buffer     bigint,                    -- while it is in a buffer
    seq        bigint,                    -- the run it went into
    answered   integer NOT NULL DEFAULT 0,-- 1: its trigger completed the batch and was answered the run's id
    PRIMARY KEY (scope, event_id)
);
CREATE INDEX event_ids_run ON event_ids (seq) WHERE seq IS NOT NULL;
CREATE INDEX event_ids_buffer ON event_ids (buffer) WHERE buffer IS NOT NULL;

CREATE TABLE buffers (
    id         bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workflow   text    COLLATE "C" NOT NULL,
    key        text    COLLATE "C" NOT NULL,
    text       text    NOT NULL,          -- the key as resolved
    opened_at  bigint  NOT NULL,
    due        bigint  NOT NULL,
    count      bigint  NOT NULL,
    bytes      bigint  NOT NULL,
    stamped    bytea   NOT NULL           -- policy of its first event, and how its run will be stamped
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX buffers_key ON buffers (workflow, key);
CREATE INDEX buffers_due ON buffers (due, id);
CREATE TABLE buffered_events (
    buffer     bigint  NOT NULL,
    number     bigint  NOT NULL,
    payload    bytea   NOT NULL,
    PRIMARY KEY (buffer, number)
);

CREATE TABLE overrides (       -- key NULL is written as the flag every = 1
    gate       text    COLLATE "C" NOT NULL,     -- its name
    every      integer NOT NULL,
    key        text    COLLATE "C" NOT NULL,
    kind       text    COLLATE "C" NOT NULL,     -- limit, rate, pause
    number     text    NOT NULL,          -- JSON: max; [p, q, burst]; until
    expires_at bigint,
    PRIMARY KEY (gate, every, key, kind)
);
CREATE INDEX overrides_expire ON overrides (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE definitions (     -- the newest declaration of each workflow
    workflow   text    COLLATE "C" PRIMARY KEY,
    declaration bytea  NOT NULL,
    code       text    NOT NULL,
    at         bigint  NOT NULL
);

CREATE TABLE schedules (
    workflow   text    COLLATE "C" NOT NULL,
    number     bigint  NOT NULL,          -- its place in the declaration
    schedule   bytea   NOT NULL,
    submission bytea   NOT NULL,
    wall_due   bigint  NOT NULL,
    PRIMARY KEY (workflow, number)
);

-- What follows is empty in a store of one shard.

CREATE TABLE outbox (          -- messages to other shards: delivered at least once, in order, and applied once
    id         bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- in the order of commits: written under the lock
    shard      bigint  NOT NULL,          -- to whom; -1 - shard: runs of chosen ids, which go by themselves
    at         bigint  NOT NULL,
    message    bytea   NOT NULL
);
CREATE INDEX outbox_shard ON outbox (shard, id);
CREATE TABLE received (        -- the last message taken in from each shard, numbered as there
    shard      bigint  PRIMARY KEY,
    last       bigint  NOT NULL
);

CREATE TABLE shards (          -- those that were made: one that is missing is not made anew
    shard      bigint  PRIMARY KEY
);

CREATE TABLE routes (          -- what decides the shard of a workflow's gated runs; only open ones take runs
    workflow   text    COLLATE "C" PRIMARY KEY,
    how        text    NOT NULL,          -- "key", "shared <name>" or "workflow <name>"
    gates      text    NOT NULL,          -- JSON array of the names of its gates
    closed     text                       -- by whom, while its routing changes
);

CREATE TABLE chosen (          -- run ids that people chose, at the shard an id belongs to and where its run is
    run_id     text    COLLATE "C" PRIMARY KEY,
    shard      bigint  NOT NULL,          -- where its run is; -1: nowhere yet, and it is cancelled already
    times      bigint  NOT NULL           -- how often it was sent there: an old farewell is told by it
);

CREATE TABLE ancestors (       -- of runs here, those that are elsewhere
    run_id     text    COLLATE "C" PRIMARY KEY,
    parent     text    COLLATE "C",
    shard      bigint  NOT NULL           -- where it is
);
CREATE INDEX ancestors_parent ON ancestors (parent) WHERE parent IS NOT NULL;

CREATE TABLE away (            -- children of runs here that are elsewhere, and what they ended with
    parent     text    COLLATE "C" NOT NULL,
    child      text    COLLATE "C" NOT NULL,
    shard      bigint  NOT NULL,          -- where it is
    state      text,                      -- NULL: not heard of its end yet
    result     bytea,
    error      bytea,
    PRIMARY KEY (parent, child)
);
CREATE INDEX away_child ON away (child);
