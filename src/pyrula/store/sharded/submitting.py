"""Submitting to several shards: each run to the shard where its gates are counted.

Most runs are one write on one shard. Two kinds take more: a run of an id that somebody chose, which is noted at the
shard to which the id belongs, and a child whose place is another shard than its parent's. Both are sent through an
outbox: once noted they arrive, whoever dies in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import TypeVar

import msgspec

from pyrula import ids
from pyrula.errors import StoreBusy
from pyrula.store.protocol import Submission, Submitted, TriggerEvent
from pyrula.store.shard import arrive
from pyrula.store.shard.arrive import Sent
from pyrula.store.shard.outbox import Ancestor
from pyrula.store.shard.placing import is_made_by, owner, place
from pyrula.store.shard.routes import route_of
from pyrula.store.shard.submit import existing
from pyrula.store.sharded.courier import Courier
from pyrula.store.sharded.finding import Finding
from pyrula.store.sharded.routing import Routing
from pyrula.store.sharded.shards import Shards

T = TypeVar("T")


class Submitting:
    """Where runs and events go, and getting them there."""

    def __init__(self, shards: Shards, routing: Routing, courier: Courier, finding: Finding) -> None:
        self._shards, self._routing, self._courier, self._finding = shards, routing, courier, finding
        self._next = count()

    async def submit(self, submissions: Sequence[Submission]) -> list[Submitted]:
        """As a store's `submit`; each shard's runs are stored at once, and what is for shards that can be reached is
        stored even if others can't. Raises `ConfigurationError`, `ShardMismatch` for a routing that can't be.
        """
        for submission in submissions:
            route_of(submission.workflow, submission.stamped)  # raises before anything is stored
        answers: list[Submitted | None] = [None] * len(submissions)
        here: dict[int, list[int]] = {}
        chosen: dict[int, list[int]] = {}
        children: list[int] = []
        named = list(submissions)
        spread = next(self._next)
        for number, submission in enumerate(submissions):
            if submission.run_id is None:
                shard = self._place(submission, "", spread + number)
                run_id = ids.run_id(self._shards.clock.wall(), shard)
                named[number] = msgspec.structs.replace(submission, run_id=run_id)
                here.setdefault(shard, []).append(number)
            elif submission.parent is not None:
                children.append(number)
            else:
                chosen.setdefault(self._owner(submission.run_id), []).append(number)

        async def store(shard: int, numbers: Sequence[int]) -> None:
            _fill(answers, numbers, await self._enter(shard, [named[number] for number in numbers]))

        async def choose(shard: int, numbers: Sequence[int]) -> None:
            _fill(answers, numbers, await self._choose(shard, [named[number] for number in numbers]))

        async def bear(numbers: Sequence[int]) -> None:
            for number in numbers:  # in this order: they may queue behind one another
                answers[number] = await self._bear(named[number])

        calls = [store(*each) for each in here.items()] + [choose(*each) for each in chosen.items()]
        await _all(calls + ([bear(children)] if children else []))
        return [answer for answer in answers if answer is not None]

    async def trigger(self, events: Sequence[TriggerEvent]) -> list[str | None]:
        """As a store's `trigger`; all or none for each shard. A buffer is where its runs go; of a workflow without
        gates, where its key leads.
        """
        answers: list[str | None] = [None] * len(events)
        by_shard: dict[int, list[int]] = {}
        for number, event in enumerate(events):
            route_of(event.workflow, event.stamped)
            route = event.stamped.route
            text = f"{event.workflow} {event.key}" if route is None else route
            by_shard.setdefault(place(text, self._count), []).append(number)

        async def buffer(shard: int, numbers: Sequence[int]) -> None:
            some = [events[number] for number in numbers]
            _fill(
                answers,
                numbers,
                await self._routing.open(
                    lambda: self._shards.ask(
                        shard,
                        lambda store: store.write(partial(arrive.trigger_here, events=some, shard=shard)),
                    )
                ),
            )

        await _all([buffer(*each) for each in by_shard.items()])
        return answers

    # -- places

    @property
    def _count(self) -> int:
        return len(self._shards.numbers)

    def _owner(self, run_id: str) -> int:
        return owner(run_id, self._count)

    def _place(self, submission: Submission, run_id: str, spread: int) -> int:
        """Where its gates are counted; without gates, where its id belongs, or if it has none yet anywhere."""
        route = submission.stamped.route
        if route is not None:
            return place(route, self._count)
        return self._owner(run_id) if run_id else spread % self._count

    # -- one kind after the other

    async def _enter(self, shard: int, submissions: Sequence[Submission]) -> list[Submitted]:
        return await self._routing.open(
            lambda: self._shards.ask(
                shard, lambda store: store.append(partial(arrive.enter, submissions=submissions))
            )
        )

    async def _choose(
        self, shard: int, submissions: Sequence[Submission], line: Sequence[Ancestor] = ()
    ) -> list[Submitted]:
        """Runs whose chosen ids belong to `shard`."""
        placed = [
            (submission, self._place(submission, str(submission.run_id), 0)) for submission in submissions
        ]
        sent = await self._routing.open(
            lambda: self._shards.ask(
                shard,
                lambda store: store.write(partial(arrive.choose, chosen=placed, line=line, shard=shard)),
            )
        )
        return await self._arrived(shard, list(zip(submissions, sent, strict=True)))

    async def _bear(self, child: Submission) -> Submitted:
        """A child: noted by its parent's shard if it is to be on another."""
        assert child.run_id is not None and child.parent is not None
        home = await self._finding.shard(child.parent)
        home = self._owner(child.parent) if home is None else home
        made = is_made_by(child.run_id, child.parent)
        route = child.stamped.route
        shard = home if route is None and made else self._place(child, child.run_id, 0)
        if made:
            verb = partial(arrive.submit_made, child=child, place=shard, shard=home)
            sent = await self._routing.open(lambda: self._shards.ask(home, lambda store: store.write(verb)))
            if sent == (home, True):
                return Submitted(child.run_id, created=True)
            return (await self._arrived(home, [(child, sent)]))[0]
        note = partial(arrive.note_child, child=child, place=shard, shard=home)
        sent, line = await self._routing.open(lambda: self._shards.ask(home, lambda store: store.write(note)))
        if sent.shard != shard:
            return (await self._arrived(self._owner(child.run_id), [(child, sent)]))[0]
        return (await self._choose(self._owner(child.run_id), [child], line))[0]

    async def _arrived(self, source: int, sent: Sequence[tuple[Submission, Sent]]) -> list[Submitted]:
        """Have what was sent arrive, and look at what was there before."""
        away = {where.shard for _, where in sent} - {source}
        await _all([self._courier.deliver(source, to) for to in away])
        answers: list[Submitted | None] = [None] * len(sent)
        by_shard: dict[int, list[int]] = {}
        for number, (submission, where) in enumerate(sent):
            assert submission.run_id is not None
            self._finding.remember(submission.run_id, where.shard)
            if where.fresh:
                answers[number] = Submitted(submission.run_id, created=True)
            else:
                by_shard.setdefault(where.shard, []).append(number)

        async def compare(shard: int, numbers: Sequence[int]) -> None:
            some = [sent[number][0] for number in numbers]
            found = await self._shards.ask(
                shard, lambda store: store.read(lambda tx: [existing(tx, each) for each in some])
            )
            for number, answer in zip(numbers, found, strict=True):
                if answer is None:
                    run_id = sent[number][0].run_id
                    raise StoreBusy(f"run id {run_id!r} is just being given away, or forgotten; call again")
                answers[number] = answer

        await _all([compare(*each) for each in by_shard.items()])
        return [answer for answer in answers if answer is not None]


def _fill(answers: list[T], numbers: Sequence[int], found: Sequence[T]) -> None:
    for number, answer in zip(numbers, found, strict=True):
        answers[number] = answer


async def _all(calls: Iterable[Awaitable[None]]) -> None:
    """Do them all; then raise the first error."""
    ends = await asyncio.gather(*calls, return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException):
            raise end
