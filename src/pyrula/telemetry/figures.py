"""Every figure there is, once: its name, its labels, and how it is read from what is known. Whoever exports figures
(Prometheus in pyrula.web, OpenTelemetry in pyrula.telemetry.meters) walks these tables, so none has one of its own.

Labels are workflows, gate names, kinds and levels: what is declared. Never a key, a run or a worker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from pyrula.clock import SECOND
from pyrula.store.protocol import Store
from pyrula.telemetry.counts import Counts, Histogram

T = TypeVar("T")
Sample: TypeAlias = tuple[tuple[str, ...], Any]
"""(values of the labels, value): a number, of a histogram a `Histogram`."""


class Figure(NamedTuple, Generic[T]):
    """What is told under one name. read: its samples, each of other label values."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    about: str
    labels: tuple[str, ...]
    read: Callable[[T], Iterable[Sample]]


class Seen(NamedTuple):
    """What a store held at `now`."""

    overview: Mapping[str, Any]
    workers: tuple[Mapping[str, Any], ...]
    now: datetime


async def look(store: Store) -> Seen:
    """Read a store, for its figures."""
    overview, workers = await store.overview(), await store.workers()
    return Seen(overview, tuple(workers), datetime.fromtimestamp(store.clock.wall() / SECOND, UTC))


# -- of a store


def _runs(seen: Seen) -> Iterable[Sample]:
    for workflow, count in seen.overview["executing"].items():
        yield ("executing", workflow), count
    yield ("queued", ""), seen.overview["queued"]
    named = {"delay": "delayed", "later": "delayed", "aside": "set_aside"}
    states = Counter[str]()  # several reasons may be one state: a series has one sample
    for reason, count in seen.overview["parked"].items():
        states[named.get(reason, f"parked_{reason}")] += count
    for state, count in states.items():
        yield (state, ""), count


def _blocked(seen: Seen) -> Iterable[tuple[tuple[str, str, str], Mapping[str, Any]]]:
    for each in seen.overview["waiting"]:
        yield (each["workflow"], each["gate"], each["kind"]), each
    for each in seen.overview["ready"]:
        yield (each["workflow"], "", "worker"), each


def _waiting(seen: Seen) -> Iterable[Sample]:
    for labels, each in _blocked(seen):
        yield labels, each["runs"]
    if seen.overview["not_looked_at"]:
        yield ("", "", "turn"), seen.overview["not_looked_at"]


def _oldest(seen: Seen) -> Iterable[Sample]:
    for labels, each in _blocked(seen):
        yield labels, _age(each["since"], seen.now)


def _buffers(what: str) -> Callable[[Seen], Iterable[Sample]]:
    return lambda seen: (((each["workflow"],), each[what]) for each in seen.overview["buffers"])


def _late(seen: Seen) -> Iterable[Sample]:
    for each in seen.overview["buffers"]:
        yield (each["workflow"],), _age(each["next_due_at"], seen.now)


def _age(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())


def _partitions(read: Callable[[Mapping[str, Any]], float | None]) -> Callable[[Seen], Iterable[Sample]]:
    """A figure of each partition that live workers have, as they say, a second or two old."""

    def samples(seen: Seen) -> Iterable[Sample]:
        for stream in _streams(seen):
            for each in stream["partitions"]:
                value = read(each)
                if value is not None:
                    yield (stream["workflow"], stream["topic"], str(each["partition"])), value

    return samples


def _in_flight(seen: Seen) -> Iterable[Sample]:
    found = Counter[tuple[str, ...]]()
    for stream in _streams(seen):
        found[stream["workflow"], stream["topic"]] += stream["in_flight"]
    return found.items()


def _streams(seen: Seen) -> Iterable[Mapping[str, Any]]:
    for worker in seen.workers:
        if worker["alive"]:
            yield from worker["facts"].get("streams", ())


_BLOCKED: Final = ("workflow", "gate", "blocked_by")
_PARTITION: Final = ("workflow", "topic", "partition")
_STREAM: Final = ("workflow", "topic")
_WORKFLOW: Final = ("workflow",)

OF_STORE: Final[tuple[Figure[Seen], ...]] = (
    Figure(
        "runs",
        "gauge",
        "Unfinished runs by state and workflow (queued and parked: of all workflows)",
        ("state", "workflow"),
        _runs,
    ),
    Figure(
        "waiting_runs",
        "gauge",
        "Queued runs by workflow, gate and what blocks them (limit, rate, slot; worker: none has taken them; "
        "turn: no worker has looked at them)",
        _BLOCKED,
        _waiting,
    ),
    Figure(
        "waiting_oldest_seconds",
        "gauge",
        "Age of the oldest run that is first in a line, by workflow, gate and what blocks it",
        _BLOCKED,
        _oldest,
    ),
    Figure("buffers", "gauge", "Buffers that have not fired, by workflow", _WORKFLOW, _buffers("buffers")),
    Figure("buffered_events", "gauge", "Events in them, by workflow", _WORKFLOW, _buffers("events")),
    Figure(
        "buffer_late_seconds",
        "gauge",
        "How long the buffer due first is overdue, by workflow",
        _WORKFLOW,
        _late,
    ),
    Figure(
        "workers",
        "gauge",
        "Workers that are alive",
        (),
        lambda seen: [((), seen.overview["live_workers"])],
    ),
    Figure(
        "stream_lag_records",
        "gauge",
        "Records from the first unfinished one to the end",
        _PARTITION,
        _partitions(lambda each: each["lag"]),
    ),
    Figure(
        "stream_waiting_records",
        "gauge",
        "Records that were read and not submitted",
        _PARTITION,
        _partitions(lambda each: each["waiting"]),
    ),
    Figure(
        "stream_stopped",
        "gauge",
        "1: the partition has stopped at a bad record",
        _PARTITION,
        _partitions(lambda each: int(each["stopped"] is not None)),
    ),
    Figure(
        "stream_in_flight_records",
        "gauge",
        "Records whose runs have not ended, parked ones included",
        _STREAM,
        _in_flight,
    ),
)

# -- of this process's worker and clients


def _counted(name: str) -> Callable[[Counts], Iterable[Sample]]:
    """A dict of counts by label value, or by several; copied, for it may be read from another thread."""

    def samples(counts: Counts) -> Iterable[Sample]:
        for key, value in dict(getattr(counts, name)).items():
            yield (key,) if isinstance(key, str) else key, value

    return samples


def _streamed(name: str) -> Callable[[Counts], Iterable[Sample]]:
    return lambda counts: (((stream["workflow"], stream["topic"]), stream[name]) for stream in counts.streams)


def _turns(counts: Counts) -> Iterable[tuple[tuple[str, ...], Histogram]]:
    return [((), counts.turns)]


OF_PROCESS: Final[tuple[Figure[Counts], ...]] = (
    Figure("turn_seconds", "histogram", "Time of a turn, its commit included", (), _turns),
    Figure(
        "executing_seconds",
        "histogram",
        "Time from a claim until its outcome is handed in",
        _WORKFLOW,
        _counted("runs"),
    ),
    Figure(
        "lapsed_leases",
        "counter",
        "Outcomes refused because the lease was lost",
        (),
        lambda counts: [((), counts.lapses)],
    ),
    Figure(
        "claims", "counter", "Runs handed out; resumed ones count each time", _WORKFLOW, _counted("claims")
    ),
    Figure("starts", "counter", "First starts", _WORKFLOW, _counted("starts")),
    Figure("submitted", "counter", "Runs submitted by this process", _WORKFLOW, _counted("submitted")),
    Figure("triggered", "counter", "Events buffered by this process", _WORKFLOW, _counted("triggered")),
    Figure("outcomes", "counter", "Outcomes handed in", ("workflow", "outcome"), _counted("outcomes")),
    Figure("steps", "counter", "Log entries written", ("kind", "status"), _counted("steps")),
    Figure(
        "limiter_wait_seconds",
        "counter",
        "Time that limiters held this process's polls back",
        ("level", "limitable"),
        _counted("held"),
    ),
    *(
        Figure(f"stream_{name}", "counter", about, _STREAM, _streamed(name))
        for name, about in {
            "finished": "Records that this process's worker finished",
            "skipped": "Records that had ended before they came to this process's worker",
            "dead_letters": "Dead letters written by this process's worker",
            "commits": "Commits of offsets sent by this process's worker",
            "rebalances": "Partitions assigned to or taken from this process's worker, in batches",
        }.items()
    ),
)
