"""Submitting to several shards: each run to the shard where its gates are counted.

Most runs are one write on one shard. Two kinds take more: a run of an id that somebody chose, which is noted at the
shard to which the id belongs, and a child whose place is another shard than its parent's. Both are sent through an
outbox: once noted they arrive, whoever dies in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Any, TypeVar

import msgspec

from pyrula import ids
from pyrula.errors import StoreBusy
from pyrula.store.protocol import Submission, Submitted, TriggerEvent
from pyrula.store.shard import arrive, outbox
from pyrula.store.shard.arrive import Sent
from pyrula.store.shard.outbox import Ancestor
from pyrula.store.shard.placing import is_made_by, owner, place
from pyrula.store.shard.routes import route_of
from pyrula.store.shard.submit import existing
from pyrula.store.shard.tx import Quiet, Tx
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
        chosen: list[int] = []
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
                chosen.append(number)

        async def store(shard: int, numbers: Sequence[int]) -> None:
            _fill(answers, numbers, await self._enter(shard, [named[number] for number in numbers]))

        async def choose(numbers: Sequence[int]) -> None:
            _fill(answers, numbers, await self._choose([named[number] for number in numbers]))

        async def bear(numbers: Sequence[int]) -> None:
            for number in numbers:  # in this order: they may queue behind one another
                answers[number] = await self._bear(named[number])

        calls = [store(*each) for each in here.items()]
        await _all(calls + [call(some) for call, some in ((choose, chosen), (bear, children)) if some])
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
        if run_id:
            return self._owner(run_id)
        well = self._shards.well()
        return well[spread % len(well)]

    # -- one kind after the other

    async def _enter(self, shard: int, submissions: Sequence[Submission]) -> list[Submitted]:
        return await self._routing.open(
            lambda: self._shards.ask(
                shard, lambda store: store.append(partial(arrive.enter, submissions=submissions))
            )
        )

    async def _choose(
        self, submissions: Sequence[Submission], line: Sequence[Ancestor] = ()
    ) -> list[Submitted]:
        """Runs of chosen ids: noted by the shards to which the ids belong, where those are not their places; then
        brought to their places in this order, by others only if this process can't.
        """
        places = [self._place(submission, str(submission.run_id), 0) for submission in submissions]
        sent, messages = await self._note(submissions, places, line)
        answers: list[Sent | Submitted | None] = [
            None if each is None or each.times else each for each in sent
        ]
        coming: dict[int, list[int]] = {}
        for number, answer in enumerate(answers):
            if answer is None:
                coming.setdefault(places[number], []).append(number)

        async def come(shard: int, numbers: Sequence[int]) -> None:
            times = [0 if (noted := sent[number]) is None else noted.times for number in numbers]
            runs = list(zip([submissions[number] for number in numbers], times, strict=True))
            _fill(answers, numbers, await self._routed(shard, partial(arrive.come, runs=runs, line=line)))

        await _all([come(*each) for each in coming.items()])
        await _all([self._drop(*each) for each in messages.items()])
        return await self._compared(submissions, answers)

    async def _note(
        self, submissions: Sequence[Submission], places: Sequence[int], line: Sequence[Ancestor]
    ) -> tuple[list[Sent | None], dict[int, list[int]]]:
        """At the owners of the ids; None where that is the run's place. And the messages that do the rest if this
        process can't."""
        sent: list[Sent | None] = [None] * len(submissions)
        messages: dict[int, list[int]] = {}
        owned: dict[int, list[int]] = {}
        for number, submission in enumerate(submissions):
            owning = self._owner(str(submission.run_id))
            if owning != places[number]:
                owned.setdefault(owning, []).append(number)

        async def note(shard: int, numbers: Sequence[int]) -> None:
            chosen = [(submissions[number], places[number]) for number in numbers]
            found, messages[shard] = await self._routed(
                shard, partial(arrive.choose, chosen=chosen, line=line)
            )
            _fill(sent, numbers, found)

        await _all([note(*each) for each in owned.items()])
        return sent, messages

    async def _drop(self, shard: int, messages: Sequence[int]) -> None:
        verb = partial(outbox.drop_some, numbers=messages)
        await self._shards.ask(shard, lambda store: store.write(Quiet(verb)))

    async def _bear(self, child: Submission) -> Submitted:
        """A child: noted by its parent's shard if it is to be on another."""
        assert child.run_id is not None and child.parent is not None
        home = await self._finding.shard(child.parent)
        home = self._owner(child.parent) if home is None else home
        made = is_made_by(child.run_id, child.parent)
        alone = child.stamped.route is None and made
        shard = home if alone else self._place(child, child.run_id, 0)
        if made:
            sent = await self._routed(home, partial(arrive.submit_made, child=child, place=shard, shard=home))
            if sent.shard != home:
                await self._courier.deliver(home, sent.shard)
        else:
            note = partial(arrive.note_child, child=child, place=shard, shard=home)
            sent, line = await self._routed(home, note)
            if sent.shard == shard:
                return (await self._choose([child], line))[0]
        return (await self._compared([child], [sent]))[0]

    async def _compared(
        self, submissions: Sequence[Submission], found: Sequence[Sent | Submitted | None]
    ) -> list[Submitted]:
        """Look at the runs that were there before: are they what is submitted?"""
        answers: list[Submitted | None] = [None] * len(found)
        by_shard: dict[int, list[int]] = {}
        for number, where in enumerate(found):
            run_id = str(submissions[number].run_id)
            if not isinstance(where, Sent):
                answers[number] = where
                continue
            self._finding.remember(run_id, where.shard)
            if where.fresh:
                answers[number] = Submitted(run_id, created=True)
            else:
                by_shard.setdefault(where.shard, []).append(number)

        async def compare(shard: int, numbers: Sequence[int]) -> None:
            for number in numbers:
                submission = submissions[number]
                there = await self._there(shard, submission)
                if there is None:  # whoever chose the id is just bringing its run
                    await self._courier.deliver(self._owner(str(submission.run_id)), outbox.aside(shard))
                    there = await self._there(shard, submission)
                if there is None:
                    raise StoreBusy(f"run id {submission.run_id!r} is just being forgotten; call again")
                answers[number] = there

        await _all([compare(*each) for each in by_shard.items()])
        return [answer for answer in answers if answer is not None]

    async def _there(self, shard: int, submission: Submission) -> Submitted | None:
        look = partial(existing, submission=submission)
        return await self._shards.ask(shard, lambda store: store.read(look))

    async def _routed(self, shard: int, verb: Callable[[Tx], T]) -> T:
        return await self._routing.open(lambda: self._shards.ask(shard, lambda store: store.write(verb)))


def _fill(answers: list[Any], numbers: Sequence[int], found: Sequence[Any]) -> None:
    for number, answer in zip(numbers, found, strict=True):
        answers[number] = answer


async def _all(calls: Iterable[Awaitable[None]]) -> None:
    """Do them all; then raise the first error."""
    ends = await asyncio.gather(*calls, return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException):
            raise end
