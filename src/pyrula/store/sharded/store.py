"""Several shards behind the face of one store (docs/shards.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pyrula.clock import Clock
from pyrula.errors import ConfigurationError, ShardMismatch
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
from pyrula.store.shard import routes, steer
from pyrula.store.shard.shard import ShardStore
from pyrula.store.sharded import merging, registering, steering
from pyrula.store.sharded.beats import Beats
from pyrula.store.sharded.courier import Courier
from pyrula.store.sharded.deadlocks import Deadlocks
from pyrula.store.sharded.finding import Finding
from pyrula.store.sharded.looking import Looking
from pyrula.store.sharded.routing import Routing
from pyrula.store.sharded.seat import Life, Seat
from pyrula.store.sharded.shards import Place, Shards
from pyrula.store.sharded.submitting import Submitting
from pyrula.store.sharded.turns import Turns


class ShardedStore:
    """A store of several shards. Bound to the event loop that uses it first."""

    def __init__(self, places: Sequence[Place], clock: Clock) -> None:
        self.shards = len(places)
        self.clock = clock
        self.place = " ".join(each.url for each in places)
        self.loop: asyncio.AbstractEventLoop | None = None
        self._shards = Shards(places, clock)
        self._routing = Routing(self._shards)
        self._courier = Courier(self._shards, self._routing)
        self._finding = Finding(self._shards)
        self._submitting = Submitting(self._shards, self._routing, self._courier, self._finding)
        self._looking = Looking(self._shards, self._finding)
        self._deadlocks = Deadlocks(self._shards)
        self._beats = Beats(self._shards)
        self._lives: dict[str, Turns] = {}
        self._nudges: set[asyncio.Event] = set()
        self._listening = False
        self._bells = [_Bell(partial(self._rung, shard)) for shard in self._shards.numbers]

    def shard(self, number: int) -> ShardStore:
        """One of its shards, for looking at it by itself."""
        return self._shards.store(number)

    # -- connection

    async def connect(self) -> None:
        self.loop = asyncio.get_running_loop()
        await self._shards.connect()

    async def close(self) -> None:
        await self._courier.close()
        await self._shards.close()

    async def __aenter__(self) -> ShardedStore:
        await self.connect()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # -- clients

    async def submit(self, submissions: Sequence[Submission]) -> list[Submitted]:
        return await self._submitting.submit(submissions)

    async def submit_in(self, connection: Any, submissions: Sequence[Submission]) -> list[Submitted]:
        raise ConfigurationError(
            f"connection= writes inside a transaction of one database, and this store has {self.shards} shards; "
            "leave it out, or submit to a store of one shard"
        )

    async def trigger(self, events: Sequence[TriggerEvent]) -> list[str | None]:
        return await self._submitting.trigger(events)

    async def send_event(self, run_id: str, name: str, payload: bytes, event_id: str | None = None) -> bool:
        shard = await self._finding.shard(run_id)
        return shard is not None and await self._shards.ask(
            shard, lambda store: store.send_event(run_id, name, payload, event_id)
        )

    async def cancel(self, run_ids: Sequence[str]) -> list[str]:
        found, _ = await self._finding.by_shard(run_ids)
        answers = await self._shards.every(lambda store: store.cancel(found[store.shard]), found)
        await self._courier.rounds(sorted(found))
        return _in_order(run_ids, found, answers)

    async def retry(self, run_ids: Sequence[str]) -> list[str]:
        """Raises `ShardMismatch` for a run whose workflow's gated runs go to another shard by now."""
        found, _ = await self._finding.by_shard(run_ids)
        for shard, names in found.items():
            verb = partial(routes.misplaced, run_ids=names, shard=shard, shards=self.shards)
            wrong = await self._shards.ask(shard, lambda store, verb=verb: store.read(verb))  # type: ignore[misc]  # bound now
            if wrong is not None:
                raise ShardMismatch(wrong)
        answers = await self._shards.every(lambda store: store.retry(found[store.shard]), found)
        return _in_order(run_ids, found, answers)

    async def flush(self, workflow: str, key: str) -> str | None:
        answers, unreached = await self._shards.each(lambda store: store.flush(workflow, key))
        fired = [run_id for run_id in answers.values() if run_id is not None]
        if not fired and unreached:
            raise unreached[0].error
        return fired[0] if fired else None

    async def declaration(self, workflow: str) -> bytes | None:
        answers = await self._shards.some(lambda store: store.declaration(workflow))
        return next((answer for answer in answers.values() if answer is not None), None)

    # -- reads

    async def get(self, run_id: str) -> Run | None:
        return await self._looking.get(run_id)

    async def results(self, run_ids: Sequence[str]) -> list[tuple[str, bytes | None] | None]:
        return await self._looking.results(run_ids)

    async def finished(self, run_ids: Sequence[str], timeout: int | None) -> None:
        await self._looking.finished(run_ids, timeout)

    async def open_runs(self, workflow: str, unit_key: str, limit: int) -> list[str]:
        return await self._looking.open_runs(workflow, unit_key, limit)

    async def runs(
        self, workflow: str | None, state: str | None, key: str | None, limit: int, cursor: str | None
    ) -> tuple[list[Run], str | None]:
        return await self._looking.runs(workflow, state, key, limit, cursor)

    async def log(self, run_id: str) -> list[Entry]:
        return await self._looking.log(run_id)

    async def why(self, run_id: str) -> dict[str, Any] | None:
        return await self._looking.why(run_id)

    async def gates(self, name: str | None, key: str | None = None, limit: int = 1000) -> list[Gate]:
        return await self._looking.gates(name, key, limit)

    async def buffers(self, workflow: str | None) -> list[dict[str, Any]]:
        return await self._looking.sorted_rows(lambda store: store.buffers(workflow), merging.by_due)

    async def workers(self) -> list[dict[str, Any]]:
        return await self._looking.workers()

    async def schedules(self) -> list[dict[str, Any]]:
        found = await self._looking.rows_once(lambda store: store.schedules(), "workflow", "number")
        return sorted(found, key=lambda row: (row["workflow"], row["number"]))

    async def now(self) -> int:
        return max((await self._shards.some(lambda store: store.now())).values())

    async def check(self) -> list[str]:
        return await self._looking.check()

    # -- pages

    async def gate_page(
        self, name: str | None, search: str | None, sort: str, limit: int, offset: int
    ) -> list[Gate]:
        return await self._looking.gate_page(name, search, sort, limit, offset)

    async def gate(self, name: str, key: str) -> Gate | None:
        return await self._looking.gate(name, key)

    async def line(
        self, gate: str, key: str, limit: int
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        return await self._looking.line(gate, key, limit)

    async def overview(self) -> dict[str, Any]:
        return await self._looking.overview()

    async def ended(self, minute: int) -> tuple[int, int]:
        return await self._looking.ended(minute)

    async def buffer_page(
        self, workflow: str | None, search: str | None, limit: int, offset: int
    ) -> list[dict[str, Any]]:
        found = await self._looking.sorted_rows(
            lambda store: store.buffer_page(workflow, search, limit + offset, 0), merging.by_due
        )
        return found[offset : offset + limit]

    async def steps(self, run_id: str, limit: int) -> list[dict[str, Any]]:
        shard = await self._finding.shard(run_id)
        return (
            [] if shard is None else await self._shards.ask(shard, lambda store: store.steps(run_id, limit))
        )

    async def children(self, run_id: str, limit: int) -> list[dict[str, Any]]:
        return await self._looking.children(run_id, limit)

    async def parent(self, run_id: str) -> str | None:
        return await self._finding.ask(run_id, lambda store: store.parent(run_id))

    async def overrides(self) -> list[dict[str, Any]]:
        return await self._looking.rows_once(lambda store: store.overrides(), "gate", "key", "kind")

    async def workflows(self) -> list[dict[str, Any]]:
        return await self._looking.rows_once(lambda store: store.workflows(), "workflow")

    # -- steering: on every shard, as any may have a key of the gate one day

    async def override(self, gate: str, key: str | None, number: Any, expires_in: int | None) -> None:
        await steering.steer_all(
            self._shards,
            gate,
            partial(steer.override, gate=gate, key=key, number=number, expires_in=expires_in),
        )

    async def pause(self, gate: str, key: str | None, until: int | None) -> None:
        await steering.steer_all(self._shards, gate, partial(steer.pause, gate=gate, key=key, until=until))

    async def resume(self, gate: str, key: str | None) -> None:
        await steering.steer_all(self._shards, gate, partial(steer.resume, gate=gate, key=key))

    async def restamp(self, workflow: str, stamper: Any) -> int:
        """Raises `ShardMismatch` for a run whose gates, as declared now, are counted on another shard."""
        return await steering.restamp_all(self._shards, self._routing, workflow, stamper)

    async def configure_limiters(self, worker_id: str | None, changes: bytes) -> dict[str, bytes]:
        answers = await self._shards.some(lambda store: store.configure_limiters(worker_id, changes))
        return {name: config for some in answers.values() for name, config in some.items()}

    # -- workers

    async def register(self, registration: Registration) -> None:
        """Raises `ConfigurationError` for workflows that can't be placed, `ShardMismatch` for a routing that can't
        change now, `StoreUnavailable` if no shard can be reached.
        """
        self.loop = asyncio.get_running_loop()
        await registering.declare(self._shards, self._routing, registration)
        before = self._lives.get(registration.incarnation)
        seats = [Seat(shard) for shard in self._shards.numbers] if before is None else before.life.seats
        life = Life(registration, seats)
        asked = self.clock.monotonic()
        answers, unreached = await self._shards.each(
            lambda store: store.register(registering.part(registration, store.shard, self.shards)),
            patience=registering.PATIENCE_SECONDS,
        )
        if not answers:
            raise unreached[0].error
        for shard in answers:
            seats[shard].take_seat(asked)
        for shard, error in unreached:
            seats[shard].failed(str(error), self.clock.monotonic())
        if before is not None:
            before.life = life
            return
        self._lives[registration.incarnation] = Turns(
            self._shards, self._courier, self._finding, self._deadlocks, life, self._nudge
        )
        self._listen()

    async def serve(self, incarnation: str, names: Sequence[str]) -> bool:
        turns = self._lives.get(incarnation)
        if turns is None:
            return False
        turns.life.serves(names)
        seats = [seat.shard for seat in turns.life.seats if seat.registered]
        answers = await self._shards.some(lambda store: store.serve(incarnation, names), seats)
        return any(answers.values())

    async def report(self, incarnation: str, facts: bytes) -> None:
        await self._shards.some(lambda store: store.report(incarnation, facts))

    async def turn(self, request: TurnRequest) -> Handed:
        turns = self._lives.get(request.incarnation)
        if turns is None:
            now = await self.now()
            return Handed(now=now, refused=tuple(lease for lease, _ in request.outcomes), lost=True)
        handed = await turns.take(request)
        if handed.lost:
            del self._lives[request.incarnation]
        return handed

    async def record(self, incarnation: str, lease: Lease, entries: Sequence[Entry]) -> list[Entry]:
        return await self._shards.ask(lease.shard, lambda store: store.record(incarnation, lease, entries))

    async def read_log(self, lease: Lease) -> list[Entry]:
        return await self._shards.ask(lease.shard, lambda store: store.read_log(lease))

    def heartbeat(self, incarnation: str) -> bool:
        turns = self._lives.get(incarnation)
        if turns is None:
            return False
        alive, news = self._beats.beat(turns.life)
        if news and self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._nudge)
        return alive

    async def leave(self, incarnation: str) -> None:
        turns = self._lives.pop(incarnation, None)
        self._listen()
        if turns is not None:
            await turns.close()

    # -- nudges

    def listen(self, nudge: asyncio.Event) -> None:
        self._nudges.add(nudge)
        self._listen()

    def unlisten(self, nudge: asyncio.Event) -> None:
        self._nudges.discard(nudge)
        self._listen()

    def _listen(self) -> None:
        """Hear of news as long as somebody listens, or takes turns: those go by it, too."""
        wanted = bool(self._nudges or self._lives)
        if wanted != self._listening:
            self._listening = wanted
            for shard, bell in enumerate(self._bells):
                store = self._shards.store(shard)
                (store.listen if wanted else store.unlisten)(bell)

    def _rung(self, shard: int) -> None:
        for turns in self._lives.values():
            turns.life.seats[shard].news = True
        self._nudge()

    def _nudge(self) -> None:
        for event in self._nudges:
            event.set()


class _Bell(asyncio.Event):
    """What a shard rings: it tells which shard it was."""

    def __init__(self, rung: Callable[[], None]) -> None:
        super().__init__()
        self._rung = rung

    def set(self) -> None:
        self._rung()


def _in_order(
    run_ids: Sequence[str], found: dict[int, list[str]], answers: dict[int, list[str]]
) -> list[str]:
    states = {
        run_id: state
        for shard, names in found.items()
        for run_id, state in zip(names, answers[shard], strict=True)
    }
    return [states.get(run_id, "") for run_id in run_ids]
