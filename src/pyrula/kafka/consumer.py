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
from typing import Any, Final

from pyrula.clock import SECOND
from pyrula.errors import PyrulaError, StoreClosed
from pyrula.kafka.burial import Burial, Letter
from pyrula.kafka.dead import DeadLetters, Reason
from pyrula.kafka.flight import LOOK_EVERY, Flight
from pyrula.kafka.partition import Partition
from pyrula.kafka.reader import Assigned, Heard, Reader, Records, Revoked
from pyrula.kafka.stats import PartitionStats, StreamStats, facts
from pyrula.model.outcome import Outcome
from pyrula.workflows.worker.streams import Here
from pyrula.workflows.workflow import Workflow

_log = logging.getLogger("pyrula.kafka")
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
        self._burial: Burial | None = None
        if stream.dead_letter_topic is not None:
            dead = DeadLetters(workflow.name, stream, stream.dead_letter_topic)
            self._burial = Burial(dead, here.clock, self._is_ours, self._buried)
        self._flight = Flight(workflow, here, self._burial)
        self._heard: deque[Heard] = deque()
        self._news = asyncio.Event()
        self._reader: Reader | None = None
        self._working: asyncio.Task[None] | None = None
        self._closing = False
        self._told_at = self._pause = 0
        self._told: dict[str, Any] = {}
        self._trouble: str | None = None
        self._rebalances = self._commits = 0

    # -- what the worker calls

    def start(self) -> None:
        self._join()
        self._working = asyncio.ensure_future(self._work())

    def look(self) -> None:
        self._news.set()

    def ended(self, run_id: str, outcome: Outcome) -> None:
        self._flight.ended(run_id, outcome)
        self._news.set()

    async def close(self, *, vanish: bool) -> None:
        self._closing = True
        self._news.set()
        if self._working is not None:
            await self._working
        if self._burial is not None:
            self._burial.stop()
        if not vanish and self._working is not None:
            try:
                await self._flight.settle()
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
        flight, reader = self._flight, self._reader
        return StreamStats(
            self._workflow.name,
            self._stream.topic,
            self._stream.group,
            flight.size,
            tuple(self._stats_of(each) for _, each in sorted(flight.partitions.items())),
            flight.finished,
            flight.skipped,
            self._burial.count if self._burial is not None else 0,
            self._commits + (reader.commits if reader is not None else 0),
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
                await clock.wait(self._news, LOOK_EVERY)

    async def _round(self) -> None:
        self._news.clear()
        await self._heed_all()
        await self._flight.settle()
        await self._flight.adopt()
        await self._flight.submit()
        if self._flight.unsure:
            self._news.set()
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
                        await self._flight.welcome(number)
                case Revoked(partitions, done):
                    self._rebalances += 1
                    await self._flight.let_go(partitions)
                    if done is not None:
                        done.set()
                case Records(records):
                    self._trouble = None
                    assert self._reader is not None
                    self._reader.taken(len(records))
                    for raw in records:
                        self._flight.take_in(raw)
                case _:
                    await self._troubled(heard.text, fatal=heard.fatal)
            self._heard.popleft()

    async def _troubled(self, text: str, *, fatal: bool) -> None:
        if text != self._trouble:
            _log.warning("topic %s: %s", self._stream.topic, text)
        self._trouble = text
        if fatal:
            reader, self._reader = self._reader, None
            self._commits += reader.commits if reader is not None else 0
            await self._flight.let_go(list(self._flight.partitions))
            await self._here.clock.sleep(_LONGEST_RETRY)
            self._join()

    # -- dead letters

    def _is_ours(self, letter: Letter) -> bool:
        partition, item, _ = letter
        return self._flight.partitions.get(partition.number) is partition and item.state != "finished"

    def _buried(self, letter: Letter, refusal: str | None) -> None:
        if not self._is_ours(letter):
            return
        partition, item, reason = letter
        if refusal is None:
            self._flight.finish(partition, item)
        else:
            told = f"{reason.message}; its dead letter was refused: {refusal}"
            self._flight.stop(partition, item, Reason(reason.code, told))
        self._news.set()

    # -- what the client and people are told

    def _steer(self) -> None:
        reader, most = self._reader, self._stream.max_concurrency
        if reader is None:
            return
        offsets = {}
        for number, partition in self._flight.partitions.items():
            done = partition.window.committable
            if done is not None:
                offsets[number] = done
            pause = partition.look_paused(most)
            if pause != partition.paused:
                partition.paused = pause
                (reader.pause if pause else reader.resume)([number])
        reader.commit(offsets)
        now = self._here.clock.monotonic()
        if self._flight.stopped_anew or now - self._told_at >= _TELL_EVERY:
            self._flight.stopped_anew = False
            self._told_at = now
            self._tell()

    def _tell(self) -> None:
        stopped = [
            {
                "partition": partition.unit,
                "run_id": partition.window.items[offset].run_id,
                "why": why,
            }
            for partition in self._flight.partitions.values()
            for offset, why in partition.window.stops.items()
        ]
        told = facts(self.stats(), stopped)
        if told != self._told:
            self._told = told
            self._here.tell(self._workflow.name, told)


def _heed(heard: Heard) -> None:
    """Nobody will look at it: let the client go on."""
    if isinstance(heard, Revoked) and heard.done is not None:
        heard.done.set()
