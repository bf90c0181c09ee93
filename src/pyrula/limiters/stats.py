"""Figures of one level, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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


def stats_of(level: Level, kinds: tuple[str, ...], held: Mapping[str, tuple[LimitedBy, ...]]) -> Stats:
    """The counters of `kinds` at `level`."""
    counters = {kind: level.counters[kind] for kind in kinds}
    return Stats(
        level.level,
        level.name,
        {kind: counter.held.running for kind, counter in counters.items()},
        {kind: counter.window.count for kind, counter in counters.items()},
        {kind: counter.window.width / SECOND for kind, counter in counters.items()},
        {kind: counter.held.reserved for kind, counter in counters.items()},
        dict(held),
    )
