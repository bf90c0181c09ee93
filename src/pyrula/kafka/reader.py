"""The reader: a thread that owns the client, so that a body which blocks the event loop loses no partition.

What it hears it tells the loop, in order: partitions assigned and revoked, records, troubles. What it is asked
for (pause, resume, commit, close) it does between two polls.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from pyrula.clock import SECOND, Clock
from pyrula.errors import ConfigurationError
from pyrula.kafka.record import Raw
from pyrula.kafka.stream import KafkaStream

_log = logging.getLogger("pyrula.kafka")
_client_log = logging.getLogger("pyrula.kafka.client")
_POLL_SECONDS: Final = 0.02
_BATCH: Final = 500
_AHEAD: Final = 4000
"""Records told and not taken by the loop yet, at which the reader waits: a loop may be blocked for long."""
_COMMIT_EVERY: Final = SECOND // 5
_LOOK_EVERY: Final = SECOND
_ANSWER_SECONDS: Final = 5.0
_REVOKE_SECONDS: Final = 3.0
"""How long a rebalance waits for the loop to let go of what is revoked. Leases keep runs apart if it does not."""
_TIMESTAMP_NOT_AVAILABLE: Final = 0


class Assigned(NamedTuple):
    """These partitions are this worker's from now on, from their committed offsets on."""

    partitions: tuple[int, ...]


class Revoked(NamedTuple):
    """These are not any more. done: to be set when that is heeded; None: it was lost, and nobody waits."""

    partitions: tuple[int, ...]
    done: threading.Event | None


class Records(NamedTuple):
    """Records, in the order of their partitions."""

    records: tuple[Raw, ...]


class Trouble(NamedTuple):
    """The client reports an error. fatal: the reader is over, and another one is needed."""

    text: str
    fatal: bool = False


Heard = Assigned | Revoked | Records | Trouble


class Reader:
    """One member of a consumer group. `hear` is called on `loop`; the other methods from there."""

    def __init__(
        self,
        stream: KafkaStream,
        worker_id: str,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        hear: Callable[[Heard], None],
    ) -> None:
        self.commits = 0
        self.owned: frozenset[int] = frozenset()
        self._stream, self._clock, self._loop, self._hear_on_loop = stream, clock, loop, hear
        self._config = {
            **settings(stream, worker_id),
            "on_commit": self._was_committed,
            "error_cb": self._complained,
        }
        self._asked: deque[tuple[str, tuple[int, ...]]] = deque()
        self._offsets: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._commit_at = 0
        self._told = self._taken = 0
        self._closing = threading.Event()
        self._vanish = False
        self._ends: dict[int, int] = {}
        self._consumer: Consumer | None = None
        self._look_at = 0
        self._thread = threading.Thread(target=self._run, name=f"pyrula-kafka-{stream.topic}", daemon=True)

    # -- from the loop

    def start(self) -> None:
        """Join the group. Raises `ConfigurationError` for settings that the client does not take."""
        try:
            self._consumer = Consumer(self._config, logger=_client_log)
        except KafkaException as error:
            told = error.args[0].str() if error.args and isinstance(error.args[0], KafkaError) else str(error)
            raise ConfigurationError(
                f"the stream of topic {self._stream.topic!r}: the client refuses KafkaStream.config: {told}"
            ) from error
        self._thread.start()

    def pause(self, partitions: Sequence[int]) -> None:
        """Read nothing more of these, for now."""
        self._asked.append(("pause", tuple(partitions)))

    def resume(self, partitions: Sequence[int]) -> None:
        """Read these again."""
        self._asked.append(("resume", tuple(partitions)))

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit these soon, and at the latest when their partitions go."""
        self._offsets.update(offsets)

    def taken(self, records: int) -> None:
        """So many records more were taken off the loop's hands."""
        self._taken += records

    def lag(self, partition: int, done: int | None) -> int | None:
        """Records from `done` to the end of a partition, as the broker last told; None if it has not yet."""
        end = self._ends.get(partition)
        return None if end is None or done is None else max(0, end - done)

    def committed(self, partition: int) -> int | None:
        """The last offset sent to be committed."""
        return self._committed.get(partition)

    def close(self, *, vanish: bool = False) -> None:
        """Commit, leave the group and end. It takes a moment: `join`."""
        self._vanish = vanish
        self._closing.set()

    def join(self, seconds: float) -> bool:
        """Wait for the end; False if it takes longer."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    # -- the thread

    def _run(self) -> None:
        consumer = self._consumer
        assert consumer is not None
        try:
            consumer.subscribe(
                [self._stream.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )
            try:
                while not self._closing.is_set():
                    self._obey(consumer)
                    if self._told - self._taken > _AHEAD:
                        self._closing.wait(_POLL_SECONDS)
                    else:
                        self._poll(consumer)
            finally:
                if not self._vanish:
                    self._commit(consumer, self._offsets, wait=True)
                consumer.close()
        except Exception as error:  # the client has a fatal error
            self._hear(Trouble(f"{type(error).__name__}: {error}", fatal=True))

    def _poll(self, consumer: Consumer) -> None:
        first = consumer.poll(_POLL_SECONDS)
        if first is None:
            return
        messages = [first, *consumer.consume(_BATCH - 1, 0)]
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(_raw(message))
            elif error.fatal():
                raise KafkaException(error)
            elif error.code() != KafkaError._PARTITION_EOF:
                self._hear(Trouble(error.str()))
        if records:
            self._told += len(records)
            self._hear(Records(tuple(records)))

    def _obey(self, consumer: Consumer) -> None:
        while self._asked:
            verb, partitions = self._asked.popleft()
            mine = [
                TopicPartition(self._stream.topic, number) for number in partitions if number in self.owned
            ]
            if mine:
                (consumer.pause if verb == "pause" else consumer.resume)(mine)
        now = self._clock.monotonic()
        if now >= self._commit_at:
            self._commit_at = now + _COMMIT_EVERY
            self._commit(consumer, self._offsets, wait=False)
        if now >= self._look_at:
            self._look_at = now + _LOOK_EVERY
            self._look(consumer)

    def _look(self, consumer: Consumer) -> None:
        """Where partitions end, as the last fetch said. In this thread only: from another, beside a poll, the
        client's call may never return."""
        for number in self.owned:
            marks = consumer.get_watermark_offsets(TopicPartition(self._stream.topic, number), cached=True)
            if marks[1] >= 0:
                self._ends[number] = marks[1]

    def _commit(self, consumer: Consumer, offsets: Mapping[int, int], *, wait: bool) -> None:
        """Commit what has moved and is its own: another's partition may be further than this one knows."""
        moved = {
            partition: offset
            for partition, offset in dict(offsets).items()
            if partition in self.owned and self._committed.get(partition) != offset
        }
        if not moved:
            return
        topic = self._stream.topic
        marks = [TopicPartition(topic, number, offset) for number, offset in moved.items()]
        try:
            if wait:
                consumer.commit(offsets=marks, asynchronous=False)
            else:
                consumer.commit(offsets=marks)
        except KafkaException as error:
            _log.warning(
                "offsets of %s could not be committed: %s; records are skipped by run id", topic, error
            )
            return
        self._committed.update(moved)
        self.commits += 1

    def _complained(self, error: KafkaError) -> None:
        self._hear(Trouble(error.str()))
        theirs = self._stream.config.get("error_cb")
        if theirs is not None:
            theirs(error)

    def _was_committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        failed = [each.partition for each in partitions if error is not None or each.error]
        for number in failed:  # sent again with the next ones
            self._committed.pop(number, None)
        if failed:
            usual = error is not None and error.code() in _REBALANCING
            level = logging.DEBUG if usual else logging.WARNING
            _log.log(
                level,
                "offsets of %s, partitions %s, were not committed: %s",
                self._stream.topic,
                failed,
                error,
            )

    # -- rebalances: called by the client, in this thread, from inside a poll

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = tuple(sorted(each.partition for each in partitions))
        self._forget(numbers)
        self.owned |= frozenset(numbers)
        if self._stream.start == "latest":
            self._pin(consumer, numbers)
        self._hear(Assigned(numbers))

    def _pin(self, consumer: Consumer, numbers: Sequence[int]) -> None:
        """A group that begins at the end begins there once: or the next owner of a partition of which nothing is
        committed yet would begin at an end that has moved, past what this one has read."""
        mine = [TopicPartition(self._stream.topic, number) for number in numbers]
        try:
            marks = consumer.committed(mine, timeout=_ANSWER_SECONDS)
            ends = {
                mark.partition: consumer.get_watermark_offsets(mark, timeout=_ANSWER_SECONDS)[1]
                for mark in marks
                if mark.offset < 0
            }
        except KafkaException as error:
            _log.warning("topic %s: where its end is now is not known: %s", self._stream.topic, error)
            return
        self._commit(consumer, ends, wait=True)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = tuple(sorted(each.partition for each in partitions))
        done = threading.Event()
        self._hear(Revoked(numbers, done))
        done.wait(0 if self._closing.is_set() else _REVOKE_SECONDS)
        going = {number: self._offsets[number] for number in numbers if number in self._offsets}
        if not self._vanish:
            self._commit(consumer, going, wait=True)
        self._forget(numbers)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = tuple(sorted(each.partition for each in partitions))
        self._forget(numbers)
        self._hear(Revoked(numbers, None))

    def _forget(self, numbers: Sequence[int]) -> None:
        self.owned -= frozenset(numbers)
        for number in numbers:
            self._offsets.pop(number, None)
            self._committed.pop(number, None)
            self._ends.pop(number, None)

    def _hear(self, heard: Heard) -> None:
        try:
            self._loop.call_soon_threadsafe(self._hear_on_loop, heard)
        except RuntimeError:  # the loop is closed: nobody is left to hear
            self._closing.set()


def settings(stream: KafkaStream, worker_id: str) -> dict[str, Any]:
    """The client's settings: what the promises rest on, after what the stream's `config` says."""
    return {
        "client.id": f"pyrula-{worker_id}",
        "partition.assignment.strategy": "cooperative-sticky",
        "queued.max.messages.kbytes": 16384,
        **stream.config,
        "bootstrap.servers": stream.bootstrap_servers,
        "group.id": stream.group,
        "auto.offset.reset": stream.start,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
    }


def _raw(message: Message) -> Raw:
    kind, timestamp = message.timestamp()
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None
    headers: Any = message.headers() or ()
    return Raw(
        partition,
        offset,
        _bytes(message.key()),
        _bytes(message.value()),
        None if kind == _TIMESTAMP_NOT_AVAILABLE else timestamp,
        tuple((name, _bytes(value)) for name, value in headers),
    )


def _bytes(data: Any) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


class _Seldom(logging.Filter):
    """Lets what the client says again and again through twice a minute: it tries a lost broker 50 times in one."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        what = record.getMessage().partition("(after")[0]
        if record.created - self._said.get(what, 0.0) < _SAME_SECONDS:
            return False
        if len(self._said) > _DIFFERENT:
            self._said.clear()
        self._said[what] = record.created
        return True


_REBALANCING: Final = frozenset({KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION})
_SAME_SECONDS: Final = 30.0
_DIFFERENT: Final = 1000
_client_log.addFilter(_Seldom())
