"""The consumer of one stream, the map of this package.

> records come in (`reader`), are read (`record`), wait in the window of their partition (`window`), are
> submitted as runs that only the partition's owner is handed, end, and are committed up to the last one before
> which all have ended.

A partition that was just assigned is *adopted* first: its owner learns which runs of it are open, makes room for
them in its flight, and only then is handed them. So `max_concurrency` holds over a rebalance. Everything else that
is promised rests on the store: a run id makes a record one run, whoever reads it and however often; a record is
submitted only once the one before it of its key has ended; and leases let one body of a run go on at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import replace as replaced
from typing import Any, Final

from confluent_kafka import KafkaException
from msgspec.structs import replace

from pyrula.clock import SECOND
from pyrula.errors import InvalidPayload, PyrulaError, StoreClosed
from pyrula.kafka.dead import DeadLetters, Reason, Refused
from pyrula.kafka.partition import Partition, adopt, most_open, take
from pyrula.kafka.reader import Assigned, Heard, Reader, Records, Revoked
from pyrula.kafka.record import Raw, read, run_id, unit_key
from pyrula.kafka.stats import PartitionStats, StreamStats, facts
from pyrula.kafka.window import Item, Window
from pyrula.model.outcome import Completed, Outcome
from pyrula.model.payload import decode
from pyrula.policies.stamp import Stamped, served_name, stamp_declared
from pyrula.store.protocol import Submission
from pyrula.workflows.worker.streams import Here
from pyrula.workflows.workflow import Workflow

_log = logging.getLogger("pyrula.kafka")
_LOOK_EVERY: Final = 3 * SECOND // 10
"""µs between looks at runs that end elsewhere: of earlier owners, cancelled while parked, retried by hand."""
_TELL_EVERY: Final = 2 * SECOND
_FIRST_RETRY: Final = SECOND // 10
_LONGEST_RETRY: Final = 5 * SECOND
_CLOSE_SECONDS: Final = 15.0


def consume(workflow: Workflow[..., Any], here: Here) -> StreamConsumer:
    """What consumes for a workflow on a worker."""
    return StreamConsumer(workflow, here)


class StreamConsumer:
    """Consumes one stream for one worker, on its event loop."""

    def __init__(self, workflow: Workflow[..., Any], here: Here) -> None:
        stream = workflow.stream
        assert stream is not None
        self._workflow, self._stream, self._here = workflow, stream, here
        self._stamped = _stamped(workflow)
        self._partitions: dict[int, Partition] = {}
        self._flying: dict[str, tuple[Partition, Item]] = {}
        """Run ids of records that are open, or at which a partition has stopped."""
        self._unsent: list[tuple[Partition, Item]] = []
        self._leaving: set[str] = set()
        """Runs of partitions that went, whose bodies go on here under the leases they have."""
        self._owning: tuple[str, ...] = ()
        self._heard: deque[Heard] = deque()
        self._ended: deque[tuple[str, Outcome]] = deque()
        self._unsure: set[str] = set()
        """Runs whose state is to be asked for at once."""
        self._letters: deque[tuple[Partition, Item, Reason]] = deque()
        self._undertaker: asyncio.Task[None] | None = None
        topic = stream.dead_letter_topic
        self._dead = None if topic is None else DeadLetters(workflow.name, stream, topic)
        self._news = asyncio.Event()
        self._reader: Reader | None = None
        self._working: asyncio.Task[None] | None = None
        self._closing = False
        self._looked_at = self._told_at = self._pause = 0
        self._told: dict[str, Any] = {}
        self._trouble: str | None = None
        self._finished = self._skipped = self._buried = self._rebalances = self._commits = 0

    # -- what the worker calls

    def start(self) -> None:
        self._join()
        self._working = asyncio.ensure_future(self._work())

    def look(self) -> None:
        self._news.set()

    def ended(self, run_id: str, outcome: Outcome) -> None:
        self._ended.append((run_id, outcome))
        self._news.set()

    async def close(self, *, vanish: bool) -> None:
        self._closing = True
        self._news.set()
        if self._working is not None:
            await self._working
        if self._undertaker is not None:
            self._undertaker.cancel()
        if not vanish:
            try:
                await self._settle()
                self._steer()
            except PyrulaError as error:
                _log.warning("%s: what ended last is not committed: %s", self._stream.topic, error)
        if self._reader is not None:
            self._reader.close(vanish=vanish)
            for heard in self._heard:
                _heed(heard)
            if not await asyncio.to_thread(self._reader.join, _CLOSE_SECONDS):
                _log.warning("the client of topic %s takes long to leave its group", self._stream.topic)

    def stats(self) -> StreamStats:
        partitions = tuple(self._stats_of(each) for _, each in sorted(self._partitions.items()))
        commits = self._commits + (self._reader.commits if self._reader is not None else 0)
        return StreamStats(
            self._workflow.name,
            self._stream.topic,
            self._stream.group,
            self._in_flight(),
            partitions,
            self._finished,
            self._skipped,
            self._buried,
            commits,
            self._rebalances,
            self._trouble,
        )

    def _stats_of(self, partition: Partition) -> PartitionStats:
        window, number = partition.window, partition.number
        reader = self._reader
        return PartitionStats(
            number,
            None if reader is None else reader.lag(number, window.committable),
            partition.load,
            window.waiting,
            None if reader is None else reader.committed(number),
            partition.paused,
            window.stops[min(window.stops)] if window.stops else None,
        )

    # -- the rounds

    async def _work(self) -> None:
        clock = self._here.clock
        while not self._closing:
            try:
                await self._round()
                self._pause = 0
            except StoreClosed:
                return
            except PyrulaError as error:
                _log.warning("topic %s: the store could not do it: %s", self._stream.topic, error)
                self._pause = min(2 * self._pause or _FIRST_RETRY, _LONGEST_RETRY)
            except Exception:  # whatever it is, a stream must not end in silence
                _log.exception("topic %s: consuming goes on after an error", self._stream.topic)
                self._pause = _LONGEST_RETRY
            if self._pause:
                await clock.sleep(self._pause)
            elif not self._heard:
                await clock.wait(self._news, _LOOK_EVERY)

    async def _round(self) -> None:
        self._news.clear()
        await self._heed_all()
        await self._settle()
        await self._adopt()
        await self._submit()
        self._bury()
        self._steer()

    def _join(self) -> None:
        here = self._here
        loop = asyncio.get_running_loop()
        self._reader = Reader(self._stream, here.worker_id, here.clock, loop, self._hear)
        self._reader.start()

    def _hear(self, heard: Heard) -> None:
        if self._closing:
            _heed(heard)
            return
        self._heard.append(heard)
        self._news.set()

    async def _heed_all(self) -> None:
        while self._heard:
            heard = self._heard[0]  # it is taken off when it is done: the store may fail meanwhile
            match heard:
                case Assigned(partitions):
                    self._trouble = None
                    self._rebalances += 1
                    for number in partitions:
                        await self._welcome(number)
                case Revoked(partitions, done):
                    self._rebalances += 1
                    await self._let_go(partitions)
                    if done is not None:
                        done.set()
                case Records(records):
                    self._trouble = None
                    assert self._reader is not None
                    self._reader.taken(len(records))
                    for raw in records:
                        self._read(raw)
                case _:
                    await self._troubled(heard.text, fatal=heard.fatal)
            self._heard.popleft()

    async def _welcome(self, number: int) -> None:
        if number in self._partitions:
            return
        unit = unit_key(self._stream, number)
        name, most = self._workflow.name, most_open(self._stream.max_concurrency)
        inherited = set(await self._here.store.open_runs(name, unit, most))
        self._leaving -= inherited
        served = served_name(name, unit, self._stamped.stamp)
        self._partitions[number] = Partition(number, unit, served, inherited)

    async def _let_go(self, numbers: Iterable[int]) -> None:
        gone = [self._partitions.pop(number) for number in numbers if number in self._partitions]
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

    async def _troubled(self, text: str, *, fatal: bool) -> None:
        if text != self._trouble:
            _log.warning("topic %s: %s", self._stream.topic, text)
        self._trouble = text
        if fatal:
            reader, self._reader = self._reader, None
            self._commits += reader.commits if reader is not None else 0
            await self._let_go(list(self._partitions))
            await self._here.clock.sleep(_LONGEST_RETRY)
            self._join()

    def _read(self, raw: Raw) -> None:
        partition = self._partitions.get(raw.partition)
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

    # -- what has ended

    async def _settle(self) -> None:
        """Take in what ended: here, as the worker says; elsewhere, as the store answers now and then."""
        while self._ended:
            run, outcome = self._ended.popleft()
            self._leaving.discard(run)
            pair = self._flying.get(run)
            if pair is None:
                for partition in self._partitions.values():
                    partition.inherited.discard(run)
            elif isinstance(outcome, Completed):
                self._finish(*pair)
            else:
                self._unsure.add(run)
        self._leaving = {run for run in self._leaving if self._here.executes(run)}
        now = self._here.clock.monotonic()
        if now - self._looked_at >= _LOOK_EVERY:
            self._looked_at = now
            await self._ask(self._elsewhere())
        elif self._unsure:
            await self._ask(list(self._unsure))

    def _elsewhere(self) -> list[str]:
        unsent = {item.run_id for _, item in self._unsent}
        buried = {item.run_id for _, item, _ in self._letters}
        ids = [run for run in self._flying if run not in unsent and run not in buried and not self._here.executes(run)]
        ids += [run for partition in self._partitions.values() for run in partition.inherited]
        return ids

    async def _ask(self, runs: list[str]) -> None:
        if not runs:
            return
        answers = await self._here.store.results(runs)
        for run, answer in zip(runs, answers, strict=True):
            self._unsure.discard(run)
            state, error = answer if answer is not None else ("forgotten", None)
            pair = self._flying.get(run)
            if pair is None:
                if state != "open":
                    for partition in self._partitions.values():
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
                self._finish(partition, item)

    def _finish(self, partition: Partition, item: Item) -> None:
        self._flying.pop(item.run_id, None)
        partition.window.finish(item)
        self._finished += 1

    def _fail(self, partition: Partition, item: Item, reason: Reason) -> None:
        """A record that can't be processed: to the dead letters, or nothing after it starts."""
        if self._dead is None:
            self._stop(partition, item, reason)
        elif all(one is not item for _, one, _ in self._letters):
            self._letters.append((partition, item, reason))

    def _stop(self, partition: Partition, item: Item, reason: Reason) -> None:
        if item.state == "open":
            cure = f"retry run {item.run_id} once its cause is mended; retried and cancelled, it is skipped"
        else:
            cure = "declare a dead_letter_topic, or move the group's offset past it"
        why = f"record {item.run_id} failed for good: {reason.code}: {reason.message}; {cure}"
        partition.window.stop(item, why)
        _log.error("partition %s of workflow %s stops: %s", partition.unit, self._workflow.name, why)
        self._told_at = 0

    def _bury(self) -> None:
        if self._letters and self._undertaker is None:
            self._undertaker = asyncio.ensure_future(self._bury_all())
            self._undertaker.add_done_callback(self._buried_all)

    def _buried_all(self, done: asyncio.Task[None]) -> None:
        self._undertaker = None
        self._news.set()
        if not done.cancelled() and done.exception() is not None:
            _log.error("topic %s: dead letters are tried again", self._stream.topic, exc_info=done.exception())

    async def _bury_all(self) -> None:
        assert self._dead is not None
        pause = _FIRST_RETRY
        while self._letters:
            partition, item, reason = self._letters[0]
            if self._partitions.get(partition.number) is partition and item.state != "finished":
                try:
                    await self._dead.write(item.run_id, item.content[0], reason)
                except Refused as error:
                    told = f"{reason.message}; its dead letter was refused: {error}"
                    self._stop(partition, item, Reason(reason.code, told))
                except KafkaException as error:
                    _log.warning("dead letter of %s is sent again: %s", item.run_id, error)
                    await self._here.clock.sleep(pause)
                    pause = min(2 * pause, _LONGEST_RETRY)
                    continue
                else:
                    self._buried += 1
                    self._finish(partition, item)
            self._letters.popleft()
            self._news.set()

    # -- what begins

    async def _adopt(self) -> None:
        for partition in adopt(list(self._partitions.values()), len(self._leaving), self._stream.max_concurrency):
            partition.adopted = True
        await self._own()

    async def _own(self) -> None:
        names = tuple(each.name for each in self._partitions.values() if each.adopted)
        if names != self._owning:
            await self._here.own(self._workflow.name, names)
            self._owning = names

    def _in_flight(self) -> int:
        return len(self._leaving) + sum(each.load for each in self._partitions.values() if each.adopted)

    async def _submit(self) -> None:
        owned = list(self._partitions.values())
        if not self._unsent and not self._here.stopping and all(each.adopted for each in owned):
            room = self._stream.max_concurrency - self._in_flight()
            turn = self._finished % len(owned) if owned else 0  # so that nobody is always the first
            for partition, item in take([*owned[turn:], *owned[:turn]], room):
                self._unsent.append((partition, item))
                self._flying[item.run_id] = partition, item
        if not self._unsent:
            return
        sent = list(self._unsent)
        answers = await self._here.store.submit([self._submission(partition, item) for partition, item in sent])
        self._unsent = []
        for (partition, item), answer in zip(sent, answers, strict=True):
            if answer.conflict and not await self._is_same(item):
                self._fail(partition, item, _CONFLICT)
            elif not answer.created:
                self._skipped += 1
                self._unsure.add(item.run_id)
        if self._unsure:
            self._news.set()

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

    # -- what the client and people are told

    def _steer(self) -> None:
        reader, most = self._reader, self._stream.max_concurrency
        if reader is None:
            return
        offsets = {}
        for number, partition in self._partitions.items():
            done = partition.window.committable
            if done is not None:
                offsets[number] = done
            pause = partition.look_paused(most)
            if pause != partition.paused:
                partition.paused = pause
                (reader.pause if pause else reader.resume)([number])
        reader.commit(offsets)
        now = self._here.clock.monotonic()
        if now - self._told_at >= _TELL_EVERY:
            self._told_at = now
            self._tell()

    def _tell(self) -> None:
        stopped = [
            {
                "partition": partition.unit,
                "run_id": partition.window.items[offset].run_id,
                "why": why,
            }
            for partition in self._partitions.values()
            for offset, why in partition.window.stops.items()
        ]
        told = facts(self.stats(), stopped)
        if told != self._told:
            self._told = told
            self._here.tell(self._workflow.name, told)


_CONFLICT: Final = Reason(
    "run_id_conflict",
    "a run has this id and was made of another record: the topic was made anew, perhaps; give its stream a group "
    "of another name",
)


def _heed(heard: Heard) -> None:
    """Nobody will look at it: let the client go on."""
    if isinstance(heard, Revoked) and heard.done is not None:
        heard.done.set()


def _reason(error: bytes | None) -> Reason:
    """Why a run failed, from what it ended with."""
    told = decode(error) if error is not None else {}
    return Reason(str(told.get("type", "failed")), str(told.get("message", "")))


def _stamped(workflow: Workflow[..., Any]) -> Stamped:
    """How each run of its stream is stamped, but for the partition. Fairness has no say: partitions are units."""
    declared = replaced(workflow.declared, unit_key=None)
    stamped = stamp_declared(declared, {})
    return replace(stamped, stamp=replace(stamped.stamp, owned=True))
