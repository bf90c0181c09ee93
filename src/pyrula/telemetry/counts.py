"""What one process counts: turns, claims, outcomes, steps, limiters that held it back. Plain numbers on one thread."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, Final

import msgspec

from pyrula.clock import SECOND
from pyrula.errors import expect
from pyrula.limiters.events import Event, WaitStopped
from pyrula.model.lease import Lease
from pyrula.model.outcome import Outcome
from pyrula.model.step import Entry
from pyrula.store.protocol import Claim, Handed, TurnRequest

TURN_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
RUN_BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0)


class Histogram:
    """Counts of durations by upper bound, seconds."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self.sum += seconds

    def buckets(self) -> list[tuple[str, int]]:
        """(upper bound, how many are at most that), the last bound is +Inf."""
        bounds = (*map(str, self._bounds), "+Inf")
        return list(zip(bounds, accumulate(self._counts), strict=True))


class Counts:
    """Counters since the process started."""

    def __init__(self) -> None:
        self.turns = Histogram(TURN_BUCKETS)
        self.claims: defaultdict[str, int] = defaultdict(int)
        self.starts: defaultdict[str, int] = defaultdict(int)
        self.outcomes: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.runs: dict[str, Histogram] = {}
        self.steps: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.submitted: defaultdict[str, int] = defaultdict(int)
        self.triggered: defaultdict[str, int] = defaultdict(int)
        self.lapses = 0
        self.streams: list[dict[str, Any]] = []
        """What the worker last said of its streams."""
        self.held: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._executing: dict[Lease, tuple[str, int]] = {}

    def turned(self, request: TurnRequest, handed: Handed, took: int) -> None:
        """A turn was taken, in `took` µs."""
        self.turns.add(took / SECOND)
        self.lapses += len(handed.refused)
        for lease, outcome in request.outcomes:
            self._ended(lease, outcome, handed.now)
        for claim in handed.claims:
            self._claimed(claim)

    def _claimed(self, claim: Claim) -> None:
        self.claims[claim.workflow] += 1
        if claim.started_at is None:
            self.starts[claim.workflow] += 1
        self._executing[claim.lease] = (claim.workflow, claim.claimed_at)

    def _ended(self, lease: Lease, outcome: Outcome, now: int) -> None:
        workflow, since = self._executing.pop(lease, ("", now))
        self.outcomes[workflow, type(outcome).__name__.lower()] += 1
        histogram = self.runs.get(workflow)
        if histogram is None:
            histogram = self.runs[workflow] = Histogram(RUN_BUCKETS)
        histogram.add((now - since) / SECOND)
        self.recorded(getattr(outcome, "entries", ()))

    def recorded(self, entries: Iterable[Entry]) -> None:
        """Entries were appended to a log."""
        for entry in entries:
            self.steps[entry.kind, entry.status] += 1

    def reported(self, facts: bytes) -> None:
        """The worker said something of itself."""
        self.streams = msgspec.json.decode(facts).get("streams", [])

    def limited(self, event: Event) -> None:
        """A listener for `pyrula.limiters.hub`."""
        if isinstance(event, WaitStopped):
            for (level, limitable), seconds in event.limited_by.items():
                self.held[level, limitable if isinstance(limitable, str) else limitable[0]] += seconds


def check_counts(option: str, value: object) -> None:
    """Raise `ConfigurationError` unless it is a `Counts`."""
    expect(option, value, isinstance(value, Counts), "a Counts() of pyrula.telemetry")
