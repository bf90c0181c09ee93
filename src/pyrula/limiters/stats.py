"""Figures of one level, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyrula.limiters.config import Limits, OsLimitable
from pyrula.limiters.levels import Level, LimitedBy
from pyrula.model.duration import SECOND


@dataclass(frozen=True, slots=True)
class Stats:
    """One level's counters per limitable, at one instant.

    concurrency: executing now; frequency: begun in the present window, of `time_windows` seconds; reserved:
    places held for polls on their way; held: of a worker, what holds back the polls for each limitable.
    """

    level: str
    name: str
    concurrency: Mapping[str, int]
    frequency: Mapping[str, int]
    time_windows: Mapping[str, float]
    reserved: Mapping[str, int]
    held: Mapping[str, tuple[LimitedBy, ...]]


@dataclass(frozen=True, slots=True)
class Figure:
    """One limit that a worker lists, with what it is held against.

    running of most: executing at once; count of often: begun in the present window, which ends at `ends_at` (µs of
    the hub's clock). Of the machine: `running` is the newest reading, -1 where there is none, and there is no window.
    """

    level: str
    limitable: OsLimitable
    running: float
    most: float | None
    count: int = 0
    often: int | None = None
    ends_at: int | None = None


def figures_of(
    limits: Limits, levels: Sequence[Level], machine: Mapping[OsLimitable, float]
) -> tuple[Figure, ...]:
    """A figure for each limit that is listed, from the machine to the widest level. Windows must be rolled."""
    found = [Figure("os", name, machine.get(name, -1), most) for name, most in limits.os.items()]
    for level in levels:
        for limitable, (most, often) in limits.of(level.level).items():
            counter = level.counters[limitable]
            window = counter.window
            running = counter.held.running
            found.append(Figure(level.level, limitable, running, most, window.began, often, window.ends_at))
    return tuple(found)


def stats_of(level: Level, kinds: tuple[str, ...], held: Mapping[str, tuple[LimitedBy, ...]]) -> Stats:
    """The counters of `kinds` at `level`."""
    counters = {kind: level.counters[kind] for kind in kinds}
    return Stats(
        level.level,
        level.name,
        {kind: counter.held.running for kind, counter in counters.items()},
        {kind: counter.window.began for kind, counter in counters.items()},
        {kind: counter.window.width / SECOND for kind, counter in counters.items()},
        {kind: counter.held.reserved for kind, counter in counters.items()},
        dict(held),
    )
