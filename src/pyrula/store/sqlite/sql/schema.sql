-- name: schema
-- Hot tables are small and narrow; runs holds the durable record. Instants are µs of the store's clock unless
-- named wall_*. Ids of lanes, units and gates are 16-byte digests of what they stand for (policies/stamp.py), so
-- that a submit needs no look-up and two processes agree without asking.

CREATE TABLE meta (            -- one row
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    version    INTEGER NOT NULL,
    store      TEXT    NOT NULL,          -- id of the store, shared by its shards
    shard      INTEGER NOT NULL,
    shards     INTEGER NOT NULL,
    time       INTEGER NOT NULL,          -- the store's time as last read …
    wall       INTEGER NOT NULL,          -- … when the wall clock said this
    turn       INTEGER NOT NULL,          -- number of the last turn: the epoch of its leases
    vtime      INTEGER NOT NULL,          -- virtual time of the unit picked last
    steering   INTEGER NOT NULL           -- goes up with every change of overrides
) STRICT;

CREATE TABLE stamps (          -- immutable; many runs share one
    id         BLOB PRIMARY KEY,          -- digest
    stamp      BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (            -- inserted once, updated when it parks, retries or ends
    seq          INTEGER PRIMARY KEY,     -- order of submission in this shard
    run_id       TEXT    NOT NULL,
    workflow     TEXT    NOT NULL,
    state        TEXT    NOT NULL,        -- open, completed, failed, cancelled, expired
    params       BLOB    NOT NULL,
    stamp        BLOB    NOT NULL,
    lane         BLOB    NOT NULL,        -- where it queues now
    priority     INTEGER NOT NULL,
    key          TEXT    NOT NULL,        -- its unit's key, for listing
    keys         TEXT    NOT NULL,        -- JSON array, aligned with stamp.gates
    attempt      INTEGER NOT NULL,
    parked       TEXT,                    -- NULL, or why it is neither queued nor executing: delay, wait, retry, later, aside
    logged       INTEGER NOT NULL,        -- number of settled log entries = order of the last one
    parent       TEXT,
    submitted_at INTEGER NOT NULL,
    wall_submitted INTEGER NOT NULL,
    started_at   INTEGER,
    finished_at  INTEGER,
    result       BLOB,
    error        BLOB,
    code         TEXT,                    -- of a run set aside: the code that could not replay it
    worker       TEXT,
    context      BLOB,                    -- trace context, carried from the submit
    lapses       INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX runs_id ON runs (run_id);
CREATE INDEX runs_workflow ON runs (workflow, seq);
CREATE INDEX runs_key ON runs (seq >> 11, key, seq) WHERE key <> '';   -- in blocks: new runs of many keys meet on few pages
CREATE INDEX runs_parent ON runs (parent, seq) WHERE parent IS NOT NULL;
CREATE INDEX runs_parked ON runs (parked, seq) WHERE parked IS NOT NULL;
CREATE INDEX runs_unusual ON runs (state, seq) WHERE state <> 'open' AND state <> 'completed';
CREATE INDEX runs_finished ON runs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX runs_ended_otherwise ON runs (finished_at) WHERE state <> 'open' AND state <> 'completed';

CREATE TABLE inbox (           -- bells for the next turn; a lane rings once however many runs joined it
    lane       BLOB PRIMARY KEY,
    look       INTEGER NOT NULL           -- 0: fresh runs joined its end; 1: anything else, its head may be another
) STRICT, WITHOUT ROWID;

CREATE TABLE queue (           -- runs that could start but for their gates
    lane       BLOB    NOT NULL,
    resumed    INTEGER NOT NULL,          -- 1: was parked or lapsed, takes slots but no token
    seq        INTEGER NOT NULL,
    stamp      BLOB    NOT NULL,
    PRIMARY KEY (lane, resumed, seq)
) STRICT, WITHOUT ROWID;

-- Lanes, units and gates have a row id, and so lie in the order in which they were made: those of keys that are busy at
-- the same time on few pages. By their ids, which are digests, each would lie on a page of its own among 100,000, to be
-- written with every commit.

CREATE TABLE lanes (
    id         BLOB NOT NULL PRIMARY KEY,
    unit       BLOB    NOT NULL,
    workflow   TEXT    NOT NULL,
    priority   INTEGER NOT NULL,
    gates      BLOB    NOT NULL,          -- the gate ids, concatenated
    plan       BLOB    NOT NULL,          -- one byte a gate: index into stamp.gates, or 255 for a slot gate
    state      INTEGER NOT NULL,          -- 0 empty, 1 ready, 2 waiting
    gate       BLOB,                      -- waiting: where; ready: the gate that rang it
    wait_vtime INTEGER NOT NULL,          -- its unit's when it began to wait
    wait_seq   INTEGER NOT NULL,          -- seq of its head when it became ready or began to wait
    wait_stamp TEXT    NOT NULL,          -- JSON of its head's number at that gate
    resumed    INTEGER NOT NULL,          -- 1: it may have resumed runs
    streak     INTEGER NOT NULL           -- resumed starts in a row
) STRICT;
CREATE INDEX lanes_ready ON lanes (unit, wait_seq, id) WHERE state = 1;
CREATE INDEX lanes_waiting ON lanes (gate, workflow, wait_stamp, priority, wait_vtime, wait_seq, id) WHERE state = 2;

CREATE TABLE units (           -- a workflow's fairness key at one priority; workflow '': a clock of admission
    id         BLOB NOT NULL PRIMARY KEY,
    workflow   TEXT    NOT NULL,
    priority   INTEGER NOT NULL,
    vtime      INTEGER NOT NULL,
    ready      INTEGER NOT NULL           -- ready lanes it has
) STRICT;
CREATE INDEX units_ready ON units (workflow, priority, vtime, id) WHERE ready > 0;

CREATE TABLE gates (
    id         BLOB NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    kind       INTEGER NOT NULL,          -- 0 limit, 1 rate, 2 private slot of a run that holds one
    in_use     INTEGER NOT NULL DEFAULT 0,
    debt       TEXT    NOT NULL DEFAULT '0',   -- decimal text: it passes 2^63
    at         INTEGER NOT NULL DEFAULT 0,
    q          INTEGER NOT NULL DEFAULT 1,
    paused     INTEGER NOT NULL DEFAULT 0,     -- closed for this key by RetryAfter: until when
    closed_by  TEXT,                           -- by which run
    waiting    INTEGER NOT NULL DEFAULT 0,     -- lanes
    dirty      INTEGER NOT NULL DEFAULT 0,
    wake_at    INTEGER,
    heralds    TEXT    NOT NULL DEFAULT '{}',  -- JSON: workflow → the ready lane that this gate rang for it; behind them its rota (rows.py)
    starts     INTEGER NOT NULL DEFAULT 0,     -- through this gate, ever: pages show how fast it grows
    lanes      INTEGER NOT NULL DEFAULT 0      -- that name it
) STRICT;
CREATE INDEX gates_name ON gates (name, key);
CREATE INDEX gates_dirty ON gates (id) WHERE dirty = 1;
CREATE INDEX gates_wake ON gates (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX gates_slot ON gates (id) WHERE kind = 2;

CREATE TABLE unused (          -- gates and units of lanes that were swept: they go when nothing comes back for them
    id         BLOB PRIMARY KEY,
    since      INTEGER NOT NULL,          -- the last time that one of their lanes was swept
    vtime      INTEGER                    -- of a unit, then; NULL: a gate
) STRICT, WITHOUT ROWID;
CREATE INDEX unused_since ON unused (since);

CREATE TABLE slots (           -- of those that keep slots while parked, and of their families: every slot; others' leases name theirs
    gate       BLOB    NOT NULL,
    seq        INTEGER NOT NULL,
    held       INTEGER NOT NULL,          -- 1: hold="run", kept while parked
    PRIMARY KEY (seq, gate)
) STRICT, WITHOUT ROWID;
CREATE INDEX slots_gate ON slots (gate, seq);
CREATE INDEX slots_held ON slots (gate) WHERE held = 1;

CREATE TABLE suspects (        -- runs that keep a slot and were parked, until one look finds them waiting for no child
    seq        INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE leases (
    seq        INTEGER PRIMARY KEY,
    epoch      INTEGER NOT NULL,
    worker     TEXT    NOT NULL,          -- incarnation
    claimed_at INTEGER NOT NULL,
    resumed    INTEGER NOT NULL,
    slots      BLOB    NOT NULL,          -- the gates of which it took a slot, concatenated
    held       INTEGER NOT NULL,          -- 1: its slots are noted in slots
    signal     INTEGER NOT NULL DEFAULT 0 -- 1: a wait was settled, 2: cancel, 4: it was told
) STRICT;
CREATE INDEX leases_worker ON leases (worker);
CREATE INDEX leases_signal ON leases (worker) WHERE signal > 0 AND signal < 4;

CREATE TABLE workers (
    incarnation TEXT PRIMARY KEY,
    worker_id  TEXT    NOT NULL,
    lease      INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    serves     TEXT    NOT NULL,          -- JSON array of workflow names
    facts      BLOB    NOT NULL,          -- what it says of itself: limiters, host, process
    limiters   BLOB,                      -- JSON: changes of its limiters, made from elsewhere, to be taken up
    limiters_number INTEGER NOT NULL DEFAULT 0 -- goes up with each such change
) STRICT, WITHOUT ROWID;
CREATE INDEX workers_expire ON workers (expires_at);

CREATE TABLE timers (
    due        INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    kind       INTEGER NOT NULL,          -- 0 start (delay, retry, later), 1 wait (sleep, timeout), 2 expire
    PRIMARY KEY (due, seq, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX timers_seq ON timers (seq);
CREATE TABLE wall_timers (     -- run_at: looks at the wall
    wall_due   INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    PRIMARY KEY (wall_due, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX wall_timers_seq ON wall_timers (seq);

CREATE TABLE steps (           -- the log
    seq        INTEGER NOT NULL,
    branch     TEXT    NOT NULL,
    number     INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    status     TEXT    NOT NULL,
    value      BLOB,
    due        INTEGER,
    settled    INTEGER NOT NULL,          -- its place in the order in which entries were settled; 0 while waiting
    at         INTEGER NOT NULL,
    PRIMARY KEY (seq, branch, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX steps_waiting ON steps (value) WHERE status = 'waiting' AND kind = 'child';   -- who waits for a child
CREATE INDEX steps_open ON steps (seq) WHERE status = 'waiting';

CREATE TABLE events (          -- sent to a run and not taken yet
    id         INTEGER PRIMARY KEY,
    seq        INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    payload    BLOB    NOT NULL,
    event_id   TEXT
) STRICT;
CREATE INDEX events_run ON events (seq, name, id);

CREATE TABLE event_ids (       -- of triggers and of events to runs: counts once, gets the first answer
    scope      TEXT    NOT NULL,          -- workflow and key, or run
    event_id   TEXT    NOT NULL,
    buffer     INTEGER,                   -- while it is in a buffer
    seq        INTEGER,                   -- the run it went into
    answered   INTEGER NOT NULL DEFAULT 0,-- 1: its trigger completed the batch and was answered the run's id
    PRIMARY KEY (scope, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_ids_run ON event_ids (seq) WHERE seq IS NOT NULL;
CREATE INDEX event_ids_buffer ON event_ids (buffer) WHERE buffer IS NOT NULL;

CREATE TABLE buffers (
    id         INTEGER PRIMARY KEY,
    workflow   TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    text       TEXT    NOT NULL,          -- the key as resolved
    opened_at  INTEGER NOT NULL,
    due        INTEGER NOT NULL,
    count      INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    stamped    BLOB    NOT NULL           -- policy of its first event, and how its run will be stamped
) STRICT;
CREATE UNIQUE INDEX buffers_key ON buffers (workflow, key);
CREATE INDEX buffers_due ON buffers (due);
CREATE TABLE buffered_events (
    buffer     INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    payload    BLOB    NOT NULL,
    PRIMARY KEY (buffer, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE overrides (       -- key NULL is written as the flag every = 1
    gate       TEXT    NOT NULL,          -- its name
    every      INTEGER NOT NULL,
    key        TEXT    NOT NULL,
    kind       TEXT    NOT NULL,          -- limit, rate, pause
    number     TEXT    NOT NULL,          -- JSON: max; [p, q, burst]; until
    expires_at INTEGER,
    PRIMARY KEY (gate, every, key, kind)
) STRICT, WITHOUT ROWID;

CREATE INDEX overrides_expire ON overrides (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE definitions (     -- the newest declaration of each workflow
    workflow   TEXT PRIMARY KEY,
    declaration BLOB   NOT NULL,
    code       TEXT    NOT NULL,
    at         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE schedules (
    workflow   TEXT    NOT NULL,
    number     INTEGER NOT NULL,          -- its place in the declaration
    schedule   BLOB    NOT NULL,
    submission BLOB    NOT NULL,
    wall_due   INTEGER NOT NULL,
    PRIMARY KEY (workflow, number)
) STRICT, WITHOUT ROWID;

-- What follows is empty in a store of one shard.

CREATE TABLE outbox (          -- messages to other shards: delivered at least once, in order, and applied once
    id         INTEGER PRIMARY KEY AUTOINCREMENT,     -- never used twice: the receiver remembers the last one
    shard      INTEGER NOT NULL,          -- to whom; -1 - shard: runs of chosen ids, which go by themselves
    at         INTEGER NOT NULL,
    message    BLOB    NOT NULL
) STRICT;
CREATE INDEX outbox_shard ON outbox (shard, id);
CREATE TABLE received (        -- the last message taken in from each shard, numbered as there
    shard      INTEGER PRIMARY KEY,
    last       INTEGER NOT NULL
) STRICT;

CREATE TABLE shards (          -- those that were made: one that is missing is not made anew
    shard      INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE routes (          -- what decides the shard of a workflow's gated runs; only open ones take runs
    workflow   TEXT PRIMARY KEY,
    how        TEXT    NOT NULL,          -- "key", "shared <name>" or "workflow <name>"
    gates      TEXT    NOT NULL,          -- JSON array of the names of its gates
    closed     TEXT                       -- by whom, while its routing changes
) STRICT, WITHOUT ROWID;

CREATE TABLE chosen (          -- run ids that people chose, at the shard an id belongs to and where its run is
    run_id     TEXT PRIMARY KEY,
    shard      INTEGER NOT NULL,          -- where its run is; -1: nowhere yet, and it is cancelled already
    times      INTEGER NOT NULL           -- how often it was sent there: an old farewell is told by it
) STRICT, WITHOUT ROWID;

CREATE TABLE ancestors (       -- of runs here, those that are elsewhere
    run_id     TEXT PRIMARY KEY,
    parent     TEXT,
    shard      INTEGER NOT NULL           -- where it is
) STRICT, WITHOUT ROWID;
CREATE INDEX ancestors_parent ON ancestors (parent) WHERE parent IS NOT NULL;

CREATE TABLE away (            -- children of runs here that are elsewhere, and what they ended with
    parent     TEXT    NOT NULL,
    child      TEXT    NOT NULL,
    shard      INTEGER NOT NULL,          -- where it is
    state      TEXT,                      -- NULL: not heard of its end yet
    result     BLOB,
    error      BLOB,
    PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;
CREATE INDEX away_child ON away (child);
