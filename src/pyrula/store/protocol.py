"""What a store promises to clients and workers. Instants and durations are microseconds of the store's
clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol, Self

import msgspec

from pyrula.clock import Clock
from pyrula.errors import expect
from pyrula.model.lease import Lease
from pyrula.model.outcome import Outcome
from pyrula.model.run import Run
from pyrula.model.step import Entry
from pyrula.policies.stamp import Stamp, Stamped


class Submission(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One run to be. params: JSON object. run_at: wall µs. parent: run id of the run that submits it as a
    child.
    """

    workflow: str
    params: bytes
    stamped: Stamped
    run_id: str | None = None
    delay: int | None = None
    run_at: int | None = None
    expires_in: int | None = None
    parent: str | None = None
    context: bytes | None = None


class Submitted(NamedTuple):
    """created is False when a run of that id with the same params was there already; conflict when with
    others.
    """

    run_id: str
    created: bool
    conflict: bool = False


class TriggerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event for a buffer. key: storable form; text: the key as resolved. stamp.trigger holds the buffer's
    policy; stamped: how the batch's run will be stamped (its gates are keyed on the batch key).
    """

    workflow: str
    key: str
    text: str
    payload: bytes
    stamped: Stamped
    event_id: str | None = None


class Claim(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run handed out by a turn. claimed_at: store µs. log: its entries, in settled order, then the waiting
    ones.
    """

    lease: Lease
    run_id: str
    workflow: str
    params: bytes
    attempt: int
    claimed_at: int
    stamp: Stamp
    log: tuple[Entry, ...] = ()
    started_at: int | None = None
    context: bytes | None = None


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a worker brings to a turn. incarnation: this life of the worker. wanted: runs it has room for. limiters:
    number of the last change of its limiters that it has taken up.
    """

    incarnation: str
    outcomes: tuple[tuple[Lease, Outcome], ...] = ()
    wanted: int = 0
    limiters: int = 0


class Signal(NamedTuple):
    """News for a run that this worker executes: it is to be cancelled, or a wait of it was settled (read its
    log).
    """

    lease: Lease
    cancel: bool


class Handed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer of a turn. refused: outcomes of leases that were lost. next_in: µs until something is due
    (0: take another turn at once; None: nothing is). now: store time. lost: this incarnation itself is not
    alive any more. rung: workflows that this worker doesn't serve whose runs may start: theirs are to be told.
    waits: room was left for those, until `next_in` at most.
    limiters: a change of its limiters made from elsewhere: its number, and JSON
    (`pyrula.limiters.wire`). nows: the time of each of several shards: what a run waits for is due by its own.
    """

    now: int
    claims: tuple[Claim, ...] = ()
    refused: tuple[Lease, ...] = ()
    signals: tuple[Signal, ...] = ()
    next_in: int | None = None
    lost: bool = False
    limiters: tuple[int, bytes] | None = None
    nows: Mapping[int, int] = {}
    rung: frozenset[str] = frozenset()
    waits: bool = False


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A worker and what it serves. declarations: workflow name → JSON of its declaration
    (Workflow.declaration()); codes: workflow name → digest of its body's code; schedules: workflow name →
    (schedule JSON, Submission) list (None: that one lives on another shard); units: what else it serves, by
    `served_name`.
    """

    incarnation: str
    worker_id: str
    lease: int
    declarations: Mapping[str, bytes]
    codes: Mapping[str, str]
    schedules: Mapping[str, Sequence[tuple[bytes, Submission] | None]] = {}
    facts: bytes = b"{}"
    units: Sequence[str] = ()


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """Why a gate lets nobody in. by: "operator" (every_key: all of the gate, not this key alone), or "run": that run
    raised `RetryAfter`. until: an aware datetime; None until somebody resumes it.
    """

    by: str
    until: datetime | None
    run_id: str | None = None
    every_key: bool = False


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """One counter as users see it; instants are aware datetimes. paused_until: when the last of its pauses ends, None
    without end, or a pause. starts: through this gate, since it is counted.
    """

    name: str
    kind: str
    key: str
    in_use: int
    max: int | None
    queued: int
    tokens: int | None
    next_start_at: Any = None
    paused_until: Any = None
    per_second: float | None = None
    burst: int | None = None
    holders: tuple[str, ...] = ()
    override: dict[str, Any] | None = None
    starts: int = 0
    pauses: tuple[Pause, ...] = ()


def check_store(option: str, value: object) -> None:
    """Raise `ConfigurationError` unless it is a store."""
    right = hasattr(value, "place") and not isinstance(value, type)
    expect(option, value, right, "a store, as open_store() gives it")


class Store(Protocol):
    """One shard, or several behind one face. Every write is durable when its call returns.

    place: where it is, without secrets: two objects of one process that have the same place are one store.
    """

    shards: int
    place: str
    clock: Clock

    async def connect(self) -> None:
        """Open, create or check the schema. Called by the first use; safe to call again."""

    async def close(self) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc: object) -> None: ...

    # -- clients
    async def submit(self, submissions: Sequence[Submission]) -> list[Submitted]: ...
    async def submit_in(self, connection: Any, submissions: Sequence[Submission]) -> list[Submitted]:
        """Submit within the transaction that is open on a PostgreSQL connection of the caller's. Raises
        ConfigurationError where it can't."""

    async def trigger(self, events: Sequence[TriggerEvent]) -> list[str | None]: ...
    async def send_event(
        self, run_id: str, name: str, payload: bytes, event_id: str | None = None
    ) -> bool: ...
    async def cancel(self, run_ids: Sequence[str]) -> list[str]:
        """Ask for cancellation; answers, per id, the state before ("" where unknown)."""

    async def retry(self, run_ids: Sequence[str]) -> list[str]: ...
    async def flush(self, workflow: str, key: str) -> str | None: ...
    async def declaration(self, workflow: str) -> bytes | None: ...

    # -- reads
    async def get(self, run_id: str) -> Run | None: ...
    async def results(self, run_ids: Sequence[str]) -> list[tuple[str, bytes | None] | None]:
        """Per id: (state, JSON of result or error), "open" until the run has ended; None: no such run."""

    async def finished(self, run_ids: Sequence[str], timeout: int | None) -> None:
        """Return when one of the runs may have finished (a nudge; check with `results`), or after `timeout`
        µs.
        """

    async def open_runs(self, workflow: str, unit_key: str, limit: int) -> list[str]:
        """The ids of those of a unit's newest `limit` runs that have not ended."""

    async def runs(
        self, workflow: str | None, state: str | None, key: str | None, limit: int, cursor: str | None
    ) -> tuple[list[Run], str | None]: ...
    async def log(self, run_id: str) -> list[Entry]: ...
    async def why(self, run_id: str) -> dict[str, Any] | None: ...
    async def gates(self, name: str | None, key: str | None = None, limit: int = 1000) -> list[Gate]: ...
    async def buffers(self, workflow: str | None) -> list[dict[str, Any]]: ...
    async def workers(self) -> list[dict[str, Any]]: ...
    async def schedules(self) -> list[dict[str, Any]]: ...
    async def now(self) -> int: ...

    # -- pages: what operators look at (store/shard/pages.py says what each answers)
    async def gate_page(
        self, name: str | None, search: str | None, sort: str, limit: int, offset: int
    ) -> list[Gate]: ...
    async def gate(self, name: str, key: str) -> Gate | None: ...
    async def line(
        self, gate: str, key: str, limit: int
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]: ...
    async def overview(self) -> dict[str, Any]: ...
    async def ended(self, minute: int) -> tuple[int, int]: ...
    async def buffer_page(
        self, workflow: str | None, search: str | None, limit: int, offset: int
    ) -> list[dict[str, Any]]: ...
    async def steps(self, run_id: str, limit: int) -> list[dict[str, Any]]: ...
    async def children(self, run_id: str, limit: int) -> list[dict[str, Any]]: ...
    async def parent(self, run_id: str) -> str | None: ...
    async def overrides(self) -> list[dict[str, Any]]: ...
    async def workflows(self) -> list[dict[str, Any]]: ...

    # -- audit
    async def check(self) -> list[str]:
        """Audit counters against slots and leases; every discrepancy as a sentence."""

    # -- steering
    async def override(self, gate: str, key: str | None, number: Any, expires_in: int | None) -> None:
        """number: int for a limit, (p, q, burst) for a rate, None to remove the override."""

    async def pause(self, gate: str, key: str | None, until: int | None) -> None:
        """until: store µs from now (None: until resumed)."""

    async def resume(self, gate: str, key: str | None) -> None: ...
    async def restamp(self, workflow: str, stamper: Any) -> int:
        """stamper: (params JSON, priority) -> Stamped. Answers how many queued runs were given the new
        stamp.
        """

    async def configure_limiters(self, worker_id: str | None, changes: bytes) -> dict[str, bytes]:
        """Have live workers of that name (None: all) change their limiters at their next turn.

        changes: JSON (`pyrula.limiters.wire`), checked. Answers per worker id the configuration it will have.
        """

    # -- workers
    async def register(self, registration: Registration) -> None: ...
    async def serve(self, incarnation: str, names: Sequence[str]) -> bool:
        """From now on this worker serves these names and no others; False when it was given up."""

    async def report(self, incarnation: str, facts: bytes) -> None:
        """What a worker says of itself (a JSON object), for `why` and the list of workers."""

    async def turn(self, request: TurnRequest) -> Handed: ...
    async def record(self, incarnation: str, lease: Lease, entries: Sequence[Entry]) -> list[Entry]:
        """Append to a run's log; answers the entries as settled (a wait may be done at once). Raises
        LeaseLost.
        """

    async def read_log(self, lease: Lease) -> list[Entry]: ...
    def heartbeat(self, incarnation: str) -> bool:
        """Renew, from any thread, on a connection of its own; False when this incarnation was given up."""

    async def leave(self, incarnation: str) -> None:
        """The worker is gone for good; whatever it still held goes back to the head of its lanes."""

    def listen(self, nudge: asyncio.Event) -> None:
        """Set `nudge` whenever something may be due for a worker: a submit, an event, a slot, a change by
        others.
        """

    def unlisten(self, nudge: asyncio.Event) -> None: ...
