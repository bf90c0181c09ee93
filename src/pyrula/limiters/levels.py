"""Whether one more may be taken, over worker, cluster and node: values in, a value out.

A worker is held while any limitable it lists is at its limit, its own kind or not. One exception keeps
workers alive: where a worker serves workflows, its `workflow` limit does not hold back what runs inside them,
or executions that wait for an activity would keep that activity from ever starting. And where one worker is
several of the seed's in one (`families_apart`), each is held at worker level by its own limitables only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from pyrula.errors import ConfigurationError, shown
from pyrula.limiters.concurrency import Concurrency
from pyrula.limiters.config import DEFAULT_TIME_WINDOW, LIMITABLES, Limits, OsLimitable
from pyrula.limiters.window import Ended, FixedWindow


@dataclass(frozen=True, slots=True)
class LimitedBy:
    """One reason a poll is held: `value` is at `limit`.

    `measure` is "concurrency", "frequency", "os" or "poll"; a "poll" has µs to go and the interval.
    """

    level: str
    limitable: OsLimitable
    measure: str
    value: float
    limit: float

    def __str__(self) -> str:
        name = self.limitable if isinstance(self.limitable, str) else " ".join(self.limitable)
        if self.measure == "poll":
            return f"poller of {name}: next poll in {self.value / 1e6:.3f} s"
        measure = "" if self.measure == "os" else f"{self.measure} "
        return f"{self.level} {name}: {measure}{self.value:g} of {self.limit:g}"


class Room(NamedTuple):
    """How many may be taken in one go; None is no limit.

    With `n` 0, `limited_by` says why and `retry_at` (µs) when to look again; else they are empty and None.
    """

    n: int | None
    limited_by: tuple[LimitedBy, ...] = ()
    retry_at: int | None = None


@dataclass(slots=True)
class Counter:
    """What one level counts of one limitable."""

    window: FixedWindow
    held: Concurrency = field(default_factory=Concurrency)


class Counters(dict[str, tuple[Counter, ...]]):
    """What a worker counts of each kind, at each level."""

    def __missing__(self, kind: object) -> NoReturn:
        raise ConfigurationError(f"kind: {shown(kind)} is refused; expected one of {', '.join(self)}")


@dataclass(slots=True)
class Level:
    """The counters of one level of one name, made when the level is."""

    level: str
    name: str
    counters: dict[str, Counter] = field(default_factory=dict)
    next_edge: int = 0
    """When the first of the windows ends, µs."""

    @staticmethod
    def of(level: str, name: str, now: int, widths: Mapping[str, int]) -> Level:
        """A level whose windows open now; the width (µs) of a limitable that `widths` leaves out is 60 s."""
        made = {kind: Counter(FixedWindow(now, widths.get(kind, DEFAULT_TIME_WINDOW))) for kind in LIMITABLES}
        return Level(level, name, made, _first_edge(made))

    def roll(self, now: int) -> Iterator[tuple[str, Ended]]:
        """Bring every window up to now; yield those that ended."""
        if now < self.next_edge:
            return
        for kind, counter in self.counters.items():
            if now >= counter.window.ends_at:
                counter.window, ended = counter.window.roll(now)
                if ended is not None:
                    yield kind, ended
        self.next_edge = _first_edge(self.counters)

    def resize(self, widths: Mapping[str, int], now: int) -> None:
        """Give the listed limitables windows of other widths (µs)."""
        for kind, width in widths.items():
            counter = self.counters[kind]
            counter.window = counter.window.resize(width, now)
        self.next_edge = _first_edge(self.counters)


def count(counters: Sequence[Counter], running: int, reserved: int, arriving: int, began: int) -> None:
    """Add to what the levels count of one limitable, the worker's first; `began` goes into the windows.

    Less than none is a fault of the caller and is refused: of the worker's, which are part of all wider levels'.
    """
    own = counters[0].held
    if own.running + running < 0 or own.reserved + reserved < 0 or own.arriving + arriving < 0:
        after = Concurrency(own.running + running, own.reserved + reserved, own.arriving + arriving)
        raise AssertionError(f"a limiter counter fell below zero: {after}")
    for counter in counters:
        held = counter.held
        held.running += running
        held.reserved += reserved
        held.arriving += arriving
        counter.window.began += began


class Listed(NamedTuple):
    """One limit that holds the polls for a kind; `mine`: it counts that very kind."""

    level: str
    limitable: str
    counter: Counter
    most: int | None
    often: int | None
    mine: bool


def listed(
    kind: str, limits: Limits, levels: Sequence[Level], *, serves_workflows: bool, families_apart: bool
) -> tuple[Listed, ...]:
    """Which of the limits that a worker lists hold its polls for `kind`."""
    found = []
    for level in levels:
        for limitable, (most, often) in limits.of(level.level).items():
            mine = limitable == kind
            if not mine and limitable == "workflow" and serves_workflows:
                continue
            if families_apart and level.level == "worker" and family(limitable) != family(kind):
                continue
            counter = level.counters[limitable]
            found.append(Listed(level.level, limitable, counter, most, often, mine))
    return tuple(found)


def room(listed: Sequence[Listed], own: int, *, now: int, check: int, strict: bool) -> Room:
    """How many more the counters leave room for, over all limits that are `listed` for a kind.

    Places promised to polls on their way count as taken: with `strict` all of a level's, else the `own` ones.
    """
    left: int | None = None
    why: list[LimitedBy] = []
    retry = now
    for level, limitable, counter, most, often, mine in listed:
        window, held = counter.window, counter.held
        promised = 0 if not mine else (held.reserved if strict else own)
        if most is not None:
            taken = held.running + promised
            if taken >= most:
                why.append(LimitedBy(level, limitable, "concurrency", taken, most))
                retry = max(retry, now + check)
            elif mine and (left is None or most - taken < left):
                left = most - taken
        if often is not None:
            taken = window.began + held.arriving + promised
            if taken >= often:
                why.append(LimitedBy(level, limitable, "frequency", taken, often))
                retry = max(retry, window.ends_at if window.began >= often else now + check)
            elif mine and (left is None or often - taken < left):
                left = often - taken
    return Room(0, tuple(why), retry) if why else Room(left)


def family(limitable: str) -> str:
    """The type of worker, in the seed's sense, that serves `limitable`: "workflow", "activity" or "nexus"."""
    return limitable.partition("_")[0]


def _first_edge(counters: Mapping[str, Counter]) -> int:
    return min(counter.window.ends_at for counter in counters.values())
