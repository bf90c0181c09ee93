"""What a worker may be limited to, checked once, when it is given.

Source: the seed's `limits`, `task_poller_limiter` and `limiter_check_frequency`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from pyrula.errors import ConfigurationError, shown
from pyrula.model.duration import LONGEST, SECOND

LIMITABLES: Final = (
    "workflow",
    "activity_regular",
    "activity_session",
    "activity_eager",
    "activity_direct",
    "nexus",
)
"""What is counted; pyrula's own workers have `workflow` and `activity_direct`."""

SERVED: Final = ("workflow", "activity_direct")
"""What pyrula's own workers serve, and may list at worker level."""

LEVELS: Final = ("worker", "cluster", "node")
"""From the narrowest to the widest: one worker, one store or Temporal cluster, one process."""

LOADS: Final = ("cpu1", "cpu5", "cpu15")
DEFAULT_TIME_WINDOW: Final = 60 * SECOND
DEFAULT_CHECK_FREQUENCY: Final = 0.5
MIN_INTERVAL: Final = SECOND // 1000

OsLimitable: TypeAlias = str | tuple[str, str]
"""`"mem"`, `"cpu1"`, `"cpu5"`, `"cpu15"` or `("disk", mount)`."""

Pair: TypeAlias = tuple[int | None, int | None]
"""(most at once, most per window); None is no limit."""

Duration: TypeAlias = float | int | timedelta


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one worker, normalised: what is not here is not limited."""

    os: Mapping[OsLimitable, float] = field(default_factory=lambda: MappingProxyType({}))
    node: Mapping[str, Pair] = field(default_factory=lambda: MappingProxyType({}))
    cluster: Mapping[str, Pair] = field(default_factory=lambda: MappingProxyType({}))
    worker: Mapping[str, Pair] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, level: str) -> Mapping[str, Pair]:
        """The limits at `level` ("worker", "cluster" or "node")."""
        found: Mapping[str, Pair] = getattr(self, level)
        return found

    def shape(self) -> dict[str, dict[Any, Any]]:
        """The limits in the shape they are given in; a level without limits is left out."""
        given: dict[str, Mapping[Any, Any]] = {
            "os": self.os,
            "node": self.node,
            "cluster": self.cluster,
            "worker": self.worker,
        }
        return {level: dict(limits) for level, limits in given.items() if limits}


@dataclass(frozen=True, slots=True)
class PollRate:
    """At most `limit` polls per `time_window` (seconds, or timedelta) and poller, evenly spaced.

    A pool of n pollers polls n times as often. Raises ConfigurationError for an interval below 1 ms.
    """

    limit: int
    time_window: Duration

    def __post_init__(self) -> None:
        if not whole(self.limit, at_least=1):
            raise _wrong("PollRate.limit", self.limit, "a whole number of polls, 1 or more")
        window = microseconds("PollRate.time_window", self.time_window)
        if window < self.limit * MIN_INTERVAL:
            raise _wrong("PollRate", self, "at least 1 ms between polls, or no limiter")

    @property
    def interval(self) -> int:
        """The least time between two polls of one poller, µs, rounded up."""
        return -(-microseconds("PollRate.time_window", self.time_window) // self.limit)


@dataclass(frozen=True, slots=True)
class LimiterConfig:
    """What can be read and changed while a worker runs."""

    limits: Mapping[str, Mapping[Any, Any]]
    task_poller_limiter: PollRate | None = None
    limiter_check_frequency: float = DEFAULT_CHECK_FREQUENCY


def poll_rate(given: Any) -> PollRate | None:
    """`task_poller_limiter`, which is a PollRate or None."""
    if given is not None and not isinstance(given, PollRate):
        raise _wrong("task_poller_limiter", given, "a PollRate, or None for no limit")
    return given


def microseconds(name: str, value: Duration) -> int:
    """`value` (seconds, or timedelta) as whole µs; raises ConfigurationError unless it is >= 1 ms."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not finite(seconds):
        raise _wrong(name, value, "a number of seconds, or a timedelta")
    if not MIN_INTERVAL <= seconds * SECOND <= LONGEST:
        raise _wrong(name, value, "0.001 seconds or more, and at most a hundred years")
    return round(seconds * SECOND)


def time_windows(given: Mapping[str, Duration] | None, known: tuple[str, ...] = LIMITABLES) -> dict[str, int]:
    """`limiter_time_windows` as µs per limitable; raises ConfigurationError for what is not `known`."""
    windows = {}
    for limitable, width in _mapping("limiter_time_windows", given).items():
        if limitable not in known:
            raise _wrong("limiter_time_windows", limitable, f"one of {', '.join(known)}")
        windows[limitable] = microseconds(f"limiter_time_windows[{limitable!r}]", width)
    return windows


def parse_limits(given: Mapping[str, Any] | None, kinds: tuple[str, ...]) -> Limits:
    """The limits `given` in the seed's shape, for a worker that serves `kinds`.

    Raises ConfigurationError, naming what is wrong: an unknown level or limitable, one that a worker of these
    kinds can't have at worker level, a number out of range, or a pair that breaks node >= cluster >= worker.
    """
    levels = _mapping("limits", given)
    for level in levels:
        if level not in ("os", *LEVELS):
            raise _wrong("limits", level, "the levels os, node, cluster, worker")
    limits = Limits(
        os=_os(_mapping("limits['os']", levels.get("os"))),
        node=_pairs("node", _mapping("limits['node']", levels.get("node")), LIMITABLES),
        cluster=_pairs("cluster", _mapping("limits['cluster']", levels.get("cluster")), LIMITABLES),
        worker=_pairs("worker", _mapping("limits['worker']", levels.get("worker")), kinds),
    )
    _check_order(limits)
    return limits


def _os(given: Mapping[Any, Any]) -> Mapping[OsLimitable, float]:
    limits: dict[OsLimitable, float] = {}
    for name, limit in given.items():
        where = f"limits['os'][{name!r}]"
        if name == "mem" or _is_disk(name):
            _number(where, limit, 1, 100, "percent used, from 1 to 100 (80 is 80 percent)")
        elif name in LOADS:
            _number(where, limit, 1, math.inf, "load average times 256, 1 or more (256 is one busy core)")
        else:
            raise _wrong("limits['os']", name, "mem, cpu1, cpu5, cpu15 or ('disk', mount)")
        if limit is not None:
            limits[name] = limit
    return MappingProxyType(limits)


def _pairs(level: str, given: Mapping[Any, Any], known: tuple[str, ...]) -> Mapping[str, Pair]:
    limits: dict[str, Pair] = {}
    for limitable, pair in given.items():
        if limitable not in known:
            own = " (a worker may list only what it serves itself)" if limitable in LIMITABLES else ""
            raise _wrong(f"limits['{level}']", limitable, f"one of {', '.join(known)}{own}")
        where = f"limits['{level}']['{limitable}']"
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise _wrong(where, pair, "a pair (most at once, most per window), None for no limit")
        for value in pair:
            if value is not None and not whole(value):
                raise _wrong(
                    where, pair, "whole numbers, 0 or more (0: nothing starts), or None for no limit"
                )
        if tuple(pair) != (None, None):
            limits[limitable] = (pair[0], pair[1])
    return MappingProxyType(limits)


def _check_order(limits: Limits) -> None:
    """A wider level below a narrower one would make the narrower one a dead letter: most likely a slip."""
    for narrow, wide in (("worker", "cluster"), ("cluster", "node"), ("worker", "node")):
        for limitable, low in limits.of(narrow).items():
            high = limits.of(wide).get(limitable, (None, None))
            for what, inner, outer in zip(("at once", "per window"), low, high, strict=True):
                if inner is not None and outer is not None and outer < inner:
                    raise _wrong(
                        "limits",
                        f"{wide} {limitable} {outer} < {narrow} {limitable} {inner} ({what})",
                        "node >= cluster >= worker for every limitable",
                    )


def _number(where: str, value: Any, low: float, high: float, expected: str) -> None:
    if value is None:
        return
    if not finite(value) or not low <= value <= high:
        raise _wrong(where, value, expected)


def whole(value: object, at_least: int = 0) -> bool:
    """Whether `value` is a whole number (True and False are not), `at_least` or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least


def finite(value: object) -> bool:
    """Whether `value` is a number, neither NaN nor infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or math.isfinite(value)  # an int may be too large to be asked


def _is_disk(name: object) -> bool:
    return isinstance(name, tuple) and len(name) == 2 and name[0] == "disk" and isinstance(name[1], str)


def _mapping(where: str, value: Any) -> Mapping[Any, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong(where, value, "a mapping")
    return value


def check_name(what: str, name: object) -> None:
    """Raises ConfigurationError unless it can name a worker or a cluster."""
    if not isinstance(name, str) or not name:
        raise _wrong(what, name, "a name")


def check_pool(size: object) -> None:
    """Raises ConfigurationError unless so many pollers are a pool."""
    if not whole(size, at_least=1):
        raise _wrong("task_poller_pool_size", size, "a whole number, 1 or more")


def check_places(what: str, number: object, most: int | None = None) -> None:
    """Raises ConfigurationError unless it is a number of places, at most `most`."""
    if not whole(number) or (most is not None and number > most):  # type: ignore[operator]  # it is an int
        raise _wrong(
            what, number, "a whole number, 0 or more" + ("" if most is None else f", at most {most}")
        )


def check_listener(listener: object) -> None:
    """Raises ConfigurationError unless it can be told of events."""
    if not callable(listener):
        raise _wrong("listen", listener, "a function of an event")


def _wrong(what: str, value: object, expected: str) -> ConfigurationError:
    return ConfigurationError(f"{what}: {shown(value)} is refused; expected {expected}")
