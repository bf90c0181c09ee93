"""One shard's face: the store protocol over a backend that can run a verb in a transaction."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self, TypeVar

import msgspec

from pyrula import ids
from pyrula.clock import Clock
from pyrula.errors import ConfigurationError
from pyrula.model.lease import Lease
from pyrula.model.run import Run
from pyrula.model.step import Entry
from pyrula.store.protocol import (
    Gate,
    Handed,
    Registration,
    Submission,
    Submitted,
    TriggerEvent,
    TurnRequest,
)
from pyrula.store.shard import (
    cancel,
    check,
    limiter_config,
    pages,
    reads,
    record,
    register,
    restamp,
    retry,
    settle,
    steer,
    trigger,
    why,
)
from pyrula.store.shard.admit import Hall
from pyrula.store.shard.drain import Broom
from pyrula.store.shard.submit import submit
from pyrula.store.shard.turn import turn
from pyrula.store.shard.tx import Quiet, Tx

T = TypeVar("T")


class ShardStore(ABC):
    """The verbs as methods. A backend gives `write`, `read`, `nudge`, and what the protocol says of connections."""

    shards = 1

    def __init__(self, clock: Clock, retention: int, place: str, shard: int = 0) -> None:
        self.clock = clock
        self.place = place
        self.shard = shard
        self.identity: str | None = None
        """The id with which a store of several shards is made, if it is to be made."""
        self._broom = Broom(retention)
        self._hall = Hall(shard)
        self._nudges: set[asyncio.Event] = set()

    @abstractmethod
    async def connect(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @abstractmethod
    def heartbeat(self, incarnation: str) -> bool: ...

    @abstractmethod
    async def finished(self, run_ids: Sequence[str], timeout: int | None) -> None: ...

    @abstractmethod
    async def write(self, verb: Callable[[Tx], T]) -> T:
        """Run a verb that may write, alone in the shard; its answer, once durable."""

    async def append(self, verb: Callable[[Tx], T]) -> T:
        """Run a verb that only adds what no turn counts on: it may run beside the shard's turns."""
        return await self.write(verb)

    @abstractmethod
    async def read(self, verb: Callable[[Tx], T]) -> T:
        """Run a verb that only reads, on one snapshot."""

    # -- clients

    async def submit(self, submissions: Sequence[Submission]) -> list[Submitted]:
        named = self.named(submissions)
        # A child may need a lane of its own, and joins a family that somebody may be cancelling.
        run = self.append if all(submission.parent is None for submission in named) else self.write
        return await run(lambda tx: submit(tx, named))

    async def submit_in(self, connection: Any, submissions: Sequence[Submission]) -> list[Submitted]:
        raise ConfigurationError(
            "connection= takes a PostgreSQL connection, and this store is none in PostgreSQL; leave it out"
        )

    def named(self, submissions: Sequence[Submission]) -> list[Submission]:
        """The same with a run id in each."""
        wall = self.clock.wall()
        return [
            submission
            if submission.run_id is not None
            else msgspec.structs.replace(submission, run_id=ids.run_id(wall, self.shard))
            for submission in submissions
        ]

    async def trigger(self, events: Sequence[TriggerEvent]) -> list[str | None]:
        return await self.write(lambda tx: trigger.trigger(tx, events, self.shard))

    async def send_event(self, run_id: str, name: str, payload: bytes, event_id: str | None = None) -> bool:
        return await self.write(lambda tx: settle.send_event(tx, run_id, name, payload, event_id))

    async def cancel(self, run_ids: Sequence[str]) -> list[str]:
        return await self.write(lambda tx: cancel.cancel(tx, run_ids))

    async def retry(self, run_ids: Sequence[str]) -> list[str]:
        return await self.write(lambda tx: retry.retry(tx, run_ids))

    async def flush(self, workflow: str, key: str) -> str | None:
        return await self.write(lambda tx: trigger.flush(tx, workflow, key, self.shard))

    async def declaration(self, workflow: str) -> bytes | None:
        return await self.read(lambda tx: register.declaration(tx, workflow))

    # -- reads

    async def get(self, run_id: str) -> Run | None:
        return await self.read(lambda tx: reads.get(tx, run_id))

    async def results(self, run_ids: Sequence[str]) -> list[tuple[str, bytes | None] | None]:
        return await self.read(lambda tx: reads.results(tx, run_ids))

    async def open_runs(self, workflow: str, unit_key: str, limit: int) -> list[str]:
        return await self.view(lambda tx: reads.open_runs(tx, workflow, unit_key, limit))

    async def runs(
        self, workflow: str | None, state: str | None, key: str | None, limit: int, cursor: str | None
    ) -> tuple[list[Run], str | None]:
        return await self.read(lambda tx: reads.runs(tx, workflow, state, key, limit, cursor))

    async def log(self, run_id: str) -> list[Entry]:
        return await self.read(lambda tx: reads.log(tx, run_id))

    async def why(self, run_id: str) -> dict[str, Any] | None:
        return await self.read(lambda tx: why.why(tx, run_id))

    async def gates(self, name: str | None, key: str | None = None, limit: int = 1000) -> list[Gate]:
        return await self.read(lambda tx: reads.gates(tx, name, key, limit))

    async def buffers(self, workflow: str | None) -> list[dict[str, Any]]:
        return await self.read(lambda tx: reads.buffers(tx, workflow))

    async def workers(self) -> list[dict[str, Any]]:
        return await self.read(reads.workers)

    async def schedules(self) -> list[dict[str, Any]]:
        return await self.read(reads.schedules)

    async def now(self) -> int:
        return await self.read(lambda tx: tx.now)

    async def check(self) -> list[str]:
        return await self.read(check.check)

    # -- pages: what operators look at

    async def view(self, verb: Callable[[Tx], T]) -> T:
        """Like `read`, for looks that may take long: nobody else waits for them."""
        return await self.read(verb)

    async def gate_page(
        self, name: str | None, search: str | None, sort: str, limit: int, offset: int
    ) -> list[Gate]:
        return await self.view(lambda tx: pages.gate_page(tx, name, search, sort, limit, offset))

    async def gate(self, name: str, key: str) -> Gate | None:
        return await self.view(lambda tx: pages.gate(tx, name, key))

    async def line(
        self, gate: str, key: str, limit: int
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        return await self.view(lambda tx: pages.line(tx, gate, key, limit))

    async def overview(self) -> dict[str, Any]:
        return await self.view(pages.overview)

    async def ended(self, minute: int) -> tuple[int, int]:
        return await self.view(lambda tx: pages.finished(tx, minute))

    async def buffer_page(
        self, workflow: str | None, search: str | None, limit: int, offset: int
    ) -> list[dict[str, Any]]:
        return await self.view(lambda tx: pages.buffer_page(tx, workflow, search, limit, offset))

    async def steps(self, run_id: str, limit: int) -> list[dict[str, Any]]:
        return await self.view(lambda tx: pages.steps(tx, run_id, limit))

    async def children(self, run_id: str, limit: int) -> list[dict[str, Any]]:
        return await self.view(lambda tx: pages.children(tx, run_id, limit))

    async def parent(self, run_id: str) -> str | None:
        return await self.view(lambda tx: pages.parent(tx, run_id))

    async def overrides(self) -> list[dict[str, Any]]:
        return await self.view(pages.overrides)

    async def workflows(self) -> list[dict[str, Any]]:
        return await self.view(pages.workflows)

    # -- steering

    async def override(self, gate: str, key: str | None, number: Any, expires_in: int | None) -> None:
        await self.write(lambda tx: steer.override(tx, gate, key, number, expires_in))

    async def pause(self, gate: str, key: str | None, until: int | None) -> None:
        await self.write(lambda tx: steer.pause(tx, gate, key, until))

    async def resume(self, gate: str, key: str | None) -> None:
        await self.write(lambda tx: steer.resume(tx, gate, key))

    async def restamp(self, workflow: str, stamper: Any) -> int:
        total, after = 0, 0
        while True:  # in batches, so that turns get in between
            done, last = await self.write(
                partial(restamp.restamp, workflow=workflow, stamper=stamper, after=after)
            )
            total += done
            if last is None:
                return total
            after = last

    async def configure_limiters(self, worker_id: str | None, changes: bytes) -> dict[str, bytes]:
        return await self.write(lambda tx: limiter_config.configure(tx, worker_id, changes))

    # -- workers

    async def register(self, registration: Registration) -> None:
        await self.write(lambda tx: register.register(tx, registration, self.shard))
        self._hall.serves[registration.incarnation] = frozenset(
            (*registration.declarations, *registration.units)
        )
        self._hall.versions.codes[registration.incarnation] = registration.codes

    async def serve(self, incarnation: str, names: Sequence[str]) -> bool:
        alive = await self.write(lambda tx: register.serve(tx, incarnation, names))
        if alive:
            self._hall.serves[incarnation] = frozenset(names)
        return alive

    async def report(self, incarnation: str, facts: bytes) -> None:
        # No turn depends on it, so nobody is woken for it.
        await self.append(Quiet(lambda tx: register.report(tx, incarnation, facts)))

    async def turn(self, request: TurnRequest) -> Handed:
        return await self.write(lambda tx: turn(tx, request, self._hall, self._broom))

    async def record(self, incarnation: str, lease: Lease, entries: Sequence[Entry]) -> list[Entry]:
        def verb(tx: Tx) -> list[Entry]:
            return record.record(tx, incarnation, lease, entries)

        # What waits may be there already, or be on its way; what is over changes nothing for anybody else.
        waits = any(entry.status == "waiting" for entry in entries)
        return await (self.write(verb) if waits else self.append(Quiet(verb)))

    async def read_log(self, lease: Lease) -> list[Entry]:
        return await self.read(lambda tx: record.read_log(tx, lease.seq))

    async def leave(self, incarnation: str) -> None:
        while await self.write(lambda tx: register.leave(tx, incarnation)):
            pass  # a batch of its leases at a time
        self._hall.serves.pop(incarnation, None)
        self._hall.versions.forget(incarnation)

    # -- nudges

    def listen(self, nudge: asyncio.Event) -> None:
        self._nudges.add(nudge)

    def unlisten(self, nudge: asyncio.Event) -> None:
        self._nudges.discard(nudge)

    def nudge(self) -> None:
        """Something may be due for whoever listens."""
        for event in self._nudges:
            event.set()
