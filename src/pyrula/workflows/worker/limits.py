"""Where the worker meets its limiters: how many runs it may ask for, and when to look again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from pyrula.clock import Clock, SystemClock
from pyrula.limiters import Hub, Limiter, hub

_hubs: WeakKeyDictionary[Clock, Hub] = WeakKeyDictionary()
"""Clocks other than the machine's have a hub of their own: counters of two times can't be added up."""


class Room(NamedTuple):
    """runs: that may be asked for now, places held for them. look_in: µs until a limiter is to be asked
    again."""

    runs: int
    look_in: int | None = None


class Limits:
    """One worker's limiters; executions are counted by the batch, so that a worker without limits pays
    nothing much."""

    def __init__(self, limiter: Limiter, clock: Clock) -> None:
        self.limiter = limiter
        self._clock = clock

    @staticmethod
    def of(clock: Clock, worker_id: str, cluster: str, options: Mapping[str, Any]) -> Limits:
        """The limiters of a worker. Raises `ConfigurationError`."""
        return Limits(_hub(clock).worker(worker_id, cluster, **options), clock)

    def room(self, free: int) -> Room:
        """Hold places for up to `free` runs."""
        if free <= 0:
            return Room(0)
        held = self.limiter.reserve("workflow", free)
        if held:
            return Room(held)
        found = self.limiter.room("workflow")
        now = self._clock.monotonic()
        check = round(self.limiter.get_config().limiter_check_frequency * 1_000_000)
        return Room(0, min(check, max(0, (found.retry_at or now) - now) or check))

    def began(self, asked: int, got: int) -> None:
        """Of `asked` places held, `got` runs begin."""
        if asked != got:
            self.limiter.polled("workflow", asked, got)
        if got:
            self.limiter.begin("workflow", got, reserved=True)

    def ended(self, runs: int) -> None:
        """So many runs ended."""
        if runs:
            self.limiter.end("workflow", runs)

    def step_began(self) -> None:
        """A step executes."""
        self.limiter.begin("activity_direct", reserved=False)

    def step_ended(self) -> None:
        """A step ended."""
        self.limiter.end("activity_direct")


def _hub(clock: Clock) -> Hub:
    if isinstance(clock, SystemClock):
        return hub
    found = _hubs.get(clock)
    if found is None:
        found = _hubs[clock] = Hub(clock, threaded=False)
    return found
