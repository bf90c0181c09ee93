"""Hands: a worker and a client without a loop of their own, so that a test says what happens when."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from pyrula.clock import SECOND
from pyrula.model.lease import Lease
from pyrula.model.outcome import Completed, Failed, Outcome, Parked
from pyrula.model.step import Entry
from pyrula.policies.declared import declare, to_json
from pyrula.policies.stamp import Stamped, stamp_declared, stamp_event_declared
from pyrula.store.protocol import Claim, Handed, Registration, Submission, TriggerEvent, TurnRequest
from pyrula.store.shard.shard import ShardStore
from pyrula.store.shard.tx import Tx
from pyrula.store.sharded.store import ShardedStore
from pyrula.testing.clock import VirtualClock

LEASE = 30 * SECOND


class Hands:
    """`declare` workflows, `submit` runs, take a `turn`, hand in what became of them."""

    def __init__(self, store: Any, clock: VirtualClock, incarnation: str = "w1") -> None:
        self.store, self.clock, self.incarnation = store, clock, incarnation
        self.declared: dict[str, Any] = {}
        self.executing: dict[str, Claim] = {}
        self.started: list[tuple[float, str]] = []
        self.last: Handed | None = None
        self._order: dict[str, int] = {}
        self._start = clock.now
        self.told: set[Lease] = set()
        """Whose waits were settled while they executed."""

    def declare(self, name: str, **policies: Any) -> None:
        self.declared[name] = declare(name, **policies)

    async def register(self, codes: dict[str, str] | None = None, **more: Any) -> None:
        await self.store.register(
            Registration(
                incarnation=self.incarnation,
                worker_id=self.incarnation,
                lease=LEASE,
                declarations={name: msgspec.json.encode(to_json(it)) for name, it in self.declared.items()},
                codes=codes or dict.fromkeys(self.declared, "code"),
                **more,
            )
        )

    def stamped(self, workflow: str, params: dict[str, Any], priority: int | None = None) -> Stamped:
        return stamp_declared(self.declared[workflow], params, priority)

    def submission(self, workflow: str, run_id: str | None = None, /, **options: Any) -> Submission:
        params = options.pop("params", {})
        if run_id is not None:
            self._order.setdefault(run_id, len(self._order))
        times = {name: options.pop(name) for name in ("delay", "expires_in") if name in options}
        return Submission(
            workflow=workflow,
            params=msgspec.json.encode(params),
            stamped=self.stamped(workflow, params, options.pop("priority", None)),
            run_id=run_id,
            **{name: round(seconds * SECOND) for name, seconds in times.items()},
            **options,
        )

    async def submit(self, workflow: str, run_id: str | None = None, /, **options: Any) -> str:
        (submitted,) = await self.store.submit([self.submission(workflow, run_id, **options)])
        return str(submitted.run_id)

    async def submit_many(self, workflow: str, run_ids: Sequence[str], **params: Any) -> None:
        await self.store.submit([self.submission(workflow, run_id, params=params) for run_id in run_ids])

    def event(self, workflow: str, event: dict[str, Any], event_id: str | None = None) -> TriggerEvent:
        key, text, stamped = stamp_event_declared(self.declared[workflow], event)
        payload = msgspec.json.encode(event)
        return TriggerEvent(
            workflow=workflow, key=key, text=text, payload=payload, stamped=stamped, event_id=event_id
        )

    async def trigger(self, workflow: str, event: dict[str, Any], event_id: str | None = None) -> str | None:
        (answer,) = await self.store.trigger([self.event(workflow, event, event_id)])
        if answer is not None:
            self._order.setdefault(answer, len(self._order))
        return answer

    async def turn(self, wanted: int = 100, outcomes: Sequence[tuple[Lease, Outcome]] = ()) -> list[str]:
        """Take turns until there is nothing more to do now; the ids of the runs that started."""
        started: list[str] = []
        while True:
            request = TurnRequest(
                incarnation=self.incarnation, outcomes=tuple(outcomes), wanted=wanted - len(started)
            )
            self.last = await self.store.turn(request)
            assert not self.last.lost
            self.told.update(signal.lease for signal in self.last.signals)
            for claim in self._as_submitted(self.last.claims):
                self.executing[claim.run_id] = claim
                self.started.append((round(self.clock.now - self._start, 6), claim.run_id))
                started.append(claim.run_id)
            outcomes = ()
            if self.last.next_in != 0:
                return started

    def _as_submitted(self, claims: Sequence[Claim]) -> list[Claim]:
        """What several shards handed out in one turn, as one shard would have: each shard's in its own order, and
        those of different shards as they were submitted. (Order is promised within a shard.)"""
        lines: dict[int, deque[Claim]] = {}
        for claim in claims:
            lines.setdefault(claim.lease.shard, deque()).append(claim)
        merged = []
        while any(lines.values()):
            line = min(filter(None, lines.values()), key=lambda line: self._order.get(line[0].run_id, 0))
            merged.append(line.popleft())
        return merged

    async def end(self, *run_ids: str, outcome: Outcome | None = None, wanted: int = 100) -> list[str]:
        """Hand in runs, completed unless said otherwise, and see what starts."""
        ends = [(self.executing.pop(run_id).lease, outcome or Completed(b"null")) for run_id in run_ids]
        return await self.turn(wanted, ends)

    async def fail(self, run_id: str, message: str = "no") -> list[str]:
        error = msgspec.json.encode({"type": "ValueError", "message": message})
        return await self.end(run_id, outcome=Failed(error))

    async def park(self, run_id: str, *entries: Entry) -> list[str]:
        return await self.end(run_id, outcome=Parked(entries))

    async def move(self, seconds: float) -> None:
        """Let time pass in one go; the worker's heartbeat goes on."""
        self.clock.move(self.clock.monotonic() + round(seconds * SECOND))
        self.store.heartbeat(self.incarnation)

    async def run_until(self, seconds: float, wanted: int = 100) -> None:
        """Take turns whenever something is due until then, ending at once whatever starts."""
        end = self.clock.monotonic() + round(seconds * SECOND)
        while True:
            started = await self.turn(wanted)
            while started:
                started = await self.end(*started, wanted=wanted)
            assert self.last is not None
            left = end - self.clock.monotonic()
            step = left if self.last.next_in is None else min(self.last.next_in, left)
            if step <= 0:
                return
            await self.move(step / SECOND)

    async def state(self, run_id: str) -> str:
        run = await self.store.get(run_id)
        return "" if run is None else str(run.state)

    def starts(self, *run_ids: str) -> list[float]:
        return [at for at, run_id in self.started if run_id in run_ids]


async def write(store: Any, verb: Callable[[Tx], Any]) -> int:
    """Run a verb on every shard; the sum of the answers."""
    answers = [await shard.write(verb) for shard in shards_of(store)]
    return sum(answers)


def shards_of(store: Any) -> list[ShardStore]:
    """The shards of a store; of one that has no others it is its own."""
    if isinstance(store, ShardedStore):
        return [store.shard(number) for number in range(store.shards)]
    return [store]


def sleep(number: int, due: int, branch: str = "") -> Entry:
    return Entry(branch, number, "sleep", "sleep", "waiting", None, due)


def event(number: int, name: str, due: int | None = None, branch: str = "") -> Entry:
    return Entry(branch, number, "event", name, "waiting", None, due)


def child(number: int, run_id: str, due: int | None = None, branch: str = "") -> Entry:
    return Entry(branch, number, "child", "child", "waiting", run_id.encode(), due)
