"""The flight of a stream: the partitions it was assigned, and their records from the reading to the end of their
runs. It is changed by what comes in, and by what the store answers; every change may be made again."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import replace as replaced
from typing import Any, Final

from msgspec.structs import replace

from pyrula.clock import SECOND
from pyrula.errors import InvalidPayload, PyrulaError, StoreClosed
from pyrula.kafka.burial import Burial, Letter
from pyrula.kafka.dead import Reason
from pyrula.kafka.partition import Partition, adopt, most_open, take
from pyrula.kafka.record import Raw, read, run_id, unit_key
from pyrula.kafka.window import Item, Window
from pyrula.model.outcome import Completed, Outcome
from pyrula.model.payload import decode
from pyrula.policies.stamp import Stamped, served_name, stamp_declared
from pyrula.store.protocol import Submission
from pyrula.workflows.worker.streams import Here
from pyrula.workflows.workflow import Workflow

_log = logging.getLogger("pyrula.kafka")
LOOK_EVERY: Final = 3 * SECOND // 10
"""µs between looks at runs that end elsewhere: of earlier owners, cancelled while parked, retried by hand."""


class Flight:
    """What one worker has in flight of one stream. burial: of dead letters; None: a bad record stops its
    partition."""

    def __init__(self, workflow: Workflow[..., Any], here: Here, burial: Burial | None) -> None:
        stream = workflow.stream
        assert stream is not None
        self._workflow, self._stream, self._here, self._burial = workflow, stream, here, burial
        self._stamped = _stamped(workflow)
        self.partitions: dict[int, Partition] = {}
        self.finished = self.skipped = 0
        self.unsure: set[str] = set()
        """Runs whose state is to be asked for at once."""
        self.stopped_anew = False
        self._flying: dict[str, tuple[Partition, Item]] = {}
        """By run id: records that are open, or at which a partition has stopped."""
        self._unsent: list[tuple[Partition, Item]] = []
        self._leaving: set[str] = set()
        """Runs of partitions that went, whose bodies go on here under the leases they have."""
        self._owning: tuple[str, ...] = ()
        self._ended: deque[tuple[str, Outcome]] = deque()
        self._looked_at = 0

    @property
    def size(self) -> int:
        """Records in flight, parked ones and those of partitions that went included."""
        return len(self._leaving) + sum(each.load for each in self.partitions.values() if each.adopted)

    # -- what comes in

    async def welcome(self, number: int) -> None:
        """A partition was assigned."""
        if number in self.partitions:
            return
        unit = unit_key(self._stream, number)
        name, most = self._workflow.name, most_open(self._stream.max_concurrency)
        inherited = set(await self._here.store.open_runs(name, unit, most))
        self._leaving -= inherited
        served = served_name(name, unit, self._stamped.stamp)
        self.partitions[number] = Partition(number, unit, served, inherited)

    async def let_go(self, numbers: Iterable[int]) -> None:
        """Partitions went. Nothing more of them is begun here; bodies go on under their leases."""
        gone = [self.partitions.pop(number) for number in numbers if number in self.partitions]
        self._unsent = [pair for pair in self._unsent if pair[0] not in gone]
        for partition in gone:
            runs = [item.run_id for item in partition.window.open.values()] + list(partition.inherited)
            self._leaving.update(run for run in runs if self._here.executes(run))
        self._flying = {run: pair for run, pair in self._flying.items() if pair[0] not in gone}
        try:
            await self._own()
        except StoreClosed:
            raise
        except PyrulaError as error:  # the next round tries again; the group must not wait for the store
            _log.warning("topic %s: the store could not be told what is owned: %s", self._stream.topic, error)

    def take_in(self, raw: Raw) -> None:
        """A record was read."""
        partition = self.partitions.get(raw.partition)
        if partition is None:
            return
        if raw.offset < (partition.window.next or 0):
            self._go_back(partition)
        item = Item(raw.offset, run_id(self._stream, raw.partition, raw.offset), size=raw.size)
        try:
            found = read(self._workflow.name, self._stream, raw)
            self._workflow.signature.check({"record": found.record})
        except InvalidPayload as error:
            item.content = (raw, b"")
            partition.window.refuse(item)
            self._fail(partition, item, Reason(error.code, str(error)))
            return
        item.order, item.content = found.order, (raw, found.params)
        is_open = item.run_id in partition.inherited
        if is_open:
            partition.inherited.discard(item.run_id)
            self._flying[item.run_id] = partition, item
        partition.window.read(item, is_open=is_open)

    def _go_back(self, partition: Partition) -> None:
        """The client reads from an earlier offset: it was out of range, as when a topic is made anew."""
        open_now = {item.run_id for item in partition.window.open.values()}
        self._flying = {run: pair for run, pair in self._flying.items() if pair[0] is not partition}
        self._unsent = [pair for pair in self._unsent if pair[0] is not partition]
        partition.inherited |= open_now
        partition.window = Window()

    def ended(self, run_id: str, outcome: Outcome) -> None:
        """A run has ended here, and the store knows."""
        self._ended.append((run_id, outcome))

    # -- what has ended

    async def settle(self) -> None:
        """Take in what ended: here, as the worker says; elsewhere, as the store answers now and then."""
        while self._ended:
            run, outcome = self._ended.popleft()
            self._leaving.discard(run)
            pair = self._flying.get(run)
            if pair is None:
                for partition in self.partitions.values():
                    partition.inherited.discard(run)
            elif isinstance(outcome, Completed):
                self.finish(*pair)
            else:
                self.unsure.add(run)
        self._leaving = {run for run in self._leaving if self._here.executes(run)}
        now = self._here.clock.monotonic()
        if now - self._looked_at >= LOOK_EVERY:
            self._looked_at = now
            await self._ask(self._elsewhere())
        elif self.unsure:
            await self._ask(list(self.unsure))

    def _elsewhere(self) -> list[str]:
        unsent = {item.run_id for _, item in self._unsent}
        ids = [
            run
            for run, (_, item) in self._flying.items()
            if not (
                run in unsent
                or self._here.executes(run)
                or (self._burial is not None and item in self._burial)
            )
        ]
        ids += [run for partition in self.partitions.values() for run in partition.inherited]
        return ids

    async def _ask(self, runs: list[str]) -> None:
        if not runs:
            return
        answers = await self._here.store.results(runs)
        for run, answer in zip(runs, answers, strict=True):
            self.unsure.discard(run)
            state, error = answer if answer is not None else ("forgotten", None)
            pair = self._flying.get(run)
            if pair is None:
                if state != "open":
                    for partition in self.partitions.values():
                        partition.inherited.discard(run)
                continue
            partition, item = pair
            if state == "open":
                if item.offset in partition.window.stops:
                    partition.window.go_on(item)
            elif state == "failed":
                if item.offset not in partition.window.stops:
                    self._fail(partition, item, _reason(error))
            else:
                self.finish(partition, item)

    def finish(self, partition: Partition, item: Item) -> None:
        """A record is done with."""
        self._flying.pop(item.run_id, None)
        partition.window.finish(item)
        self.finished += 1

    def _fail(self, partition: Partition, item: Item, reason: Reason) -> None:
        """A record that can't be processed: to the dead letters, or nothing after it starts."""
        if self._burial is None:
            self.stop(partition, item, reason)
        else:
            self._burial.add(Letter(partition, item, reason))

    def stop(self, partition: Partition, item: Item, reason: Reason) -> None:
        """Begin nothing after this record."""
        if item.state == "open":
            cure = f"retry run {item.run_id} once its cause is mended, or declare a dead_letter_topic"
        else:
            cure = "declare a dead_letter_topic, or move the group's offset past it"
        why = f"record {item.run_id} failed for good: {reason.code}: {reason.message}; {cure}"
        partition.window.stop(item, why)
        _log.error("partition %s of workflow %s stops: %s", partition.unit, self._workflow.name, why)
        self.stopped_anew = True

    # -- what begins

    async def adopt(self) -> None:
        """Be handed the runs of the partitions whose open ones have room, and of no others."""
        most = self._stream.max_concurrency
        for partition in adopt(list(self.partitions.values()), len(self._leaving), most):
            partition.adopted = True
        await self._own()

    async def _own(self) -> None:
        names = tuple(each.name for each in self.partitions.values() if each.adopted)
        if names != self._owning:
            await self._here.own(self._workflow.name, names)
            self._owning = names

    async def submit(self) -> None:
        """Submit what there is room for, as runs of their partitions."""
        owned = list(self.partitions.values())
        if not self._unsent and not self._here.stopping and all(each.adopted for each in owned):
            room = self._stream.max_concurrency - self.size
            turn = self.finished % len(owned) if owned else 0  # so that nobody is always the first
            for partition, item in take([*owned[turn:], *owned[:turn]], room):
                self._unsent.append((partition, item))
                self._flying[item.run_id] = partition, item
        if not self._unsent:
            return
        sent = list(self._unsent)
        answers = await self._here.store.submit(
            [self._submission(partition, item) for partition, item in sent]
        )
        self._unsent = []
        for (partition, item), answer in zip(sent, answers, strict=True):
            if answer.conflict and not await self._is_same(item):
                self._fail(partition, item, _CONFLICT)
            elif not answer.created:
                self.skipped += 1
                self.unsure.add(item.run_id)

    def _submission(self, partition: Partition, item: Item) -> Submission:
        stamped = replace(self._stamped, unit_key=partition.unit)
        params: bytes = item.content[1]
        return Submission(workflow=self._workflow.name, params=params, stamped=stamped, run_id=item.run_id)

    async def _is_same(self, item: Item) -> bool:
        """Whether the run that has its id was made of this record, read in another way then: of the same time."""
        run = await self._here.store.get(item.run_id)
        if run is None:
            return False
        known, here = run.params.get("record"), decode(item.content[1])["record"]
        return isinstance(known, dict) and known.get("timestamp") == here["timestamp"]


_CONFLICT: Final = Reason(
    "run_id_conflict",
    "a run has this id and was made of another record: the topic was made anew, perhaps; give its stream a group "
    "of another name",
)


def _reason(error: bytes | None) -> Reason:
    """Why a run failed, from what it ended with."""
    told = decode(error) if error is not None else {}
    return Reason(str(told.get("type", "failed")), str(told.get("message", "")))


def _stamped(workflow: Workflow[..., Any]) -> Stamped:
    """How each run of its stream is stamped, but for the partition. Fairness has no say: partitions are units."""
    declared = replaced(workflow.declared, unit_key=None)
    stamped = stamp_declared(declared, {})
    return replace(stamped, stamp=replace(stamped.stamp, owned=True))
