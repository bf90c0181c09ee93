"""Where a worker's polls wait for their permits.

A permit is handed over on whatever thread makes room for it: the poll that waits for it leaves without a turn of the
event loop. The loop only keeps the alarm for those who wait.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from contextlib import suppress

from pyrula.clock import SECOND
from pyrula.limiters import Limiter
from pyrula.temporal.permit import Permit, Unlimited
from pyrula.temporal.pollers import Pollers

log = logging.getLogger(__name__)

LET_GO_AFTER = SECOND // 10
"""Where the SDK stops a worker for a fatal error it has just cancelled a poll for activities, and one that is handed
out meanwhile is lost: then the stop would wait for it for ever."""

LEAST_DELAY = SECOND // 1000
"""How far ahead an alarm is set at least, µs."""

FAILED_DELAY = SECOND // 2
"""When a limiter that failed is asked again, µs: the SDK would ask at once, thousands of times a second."""

NEVER = sys.maxsize
"""µs."""


class Gate:
    """The permits that one worker waits for, until it stops."""

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter
        self.waiting: set[Permit] = set()
        self.announced = False
        """Whether the worker's stop will be told by `let_go`."""
        self._stopping = False
        self._letting_go: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = NEVER
        self._unlimited = Unlimited()
        self._told = False

    def open(self, announced: bool) -> None:
        """A worker begins to run; `announced`: its stop will be told by `let_go`."""
        self.close()
        self.announced = announced

    def close(self) -> None:
        """The worker has stopped. May run in a finaliser, under any lock: the next call into the hub does the work."""
        for alarm in (self._letting_go, self._alarm):
            if alarm is not None:
                alarm.cancel()
        self._stopping, self._letting_go, self._alarm, self._alarm_at = False, None, None, NEVER
        self.limiter.hub.returned.extend(one.withdraw for one in tuple(self.waiting))

    def let_go(self) -> None:
        """The worker begins to stop: in a moment local activities run, whatever the limits say. On the worker's loop.

        They hold open the workflow task that the stop waits for, and nobody cancels their wait.
        """
        if self._letting_go is None:
            loop = asyncio.get_running_loop()
            self._letting_go = loop.call_later(LET_GO_AFTER / SECOND, self._force_local)

    def reserve(self, group: Pollers | None) -> Permit | Unlimited:
        """Ask for a permit of `group`, from any thread; of none there is always one."""
        if group is None:
            return self._unlimited
        made = Permit(self, group)
        made.ask()
        if self._stopping and _local(made):
            made.force()
        return made

    def given_up(self) -> None:
        """The SDK cancels a wait only when its worker stops, and not always then: the next best sign."""
        if not self.announced:
            self._on_loop(self.let_go)

    def watch(self, one: Permit) -> None:
        """Look again when `one` says. On the worker's loop."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._alarm, self._alarm_at = loop, None, NEVER
        if one.look_at < self._alarm_at:
            self._set_alarm(one.look_at)

    def sooner(self) -> None:
        """Somebody is to look earlier than was said, from any thread."""
        self._on_loop(self._reset)

    def failed(self, name: str) -> int:
        """Say once that the limiter failed; when to ask it again, µs of the hub's clock."""
        if not self._told:
            self._told = True
            log.exception("the limiter failed; polls of %s wait until it answers", name)
        return self.limiter.hub.clock.monotonic() + FAILED_DELAY

    def _on_loop(self, call: Callable[[], None]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # a closed loop: whoever waited is gone
                self._loop.call_soon_threadsafe(call)

    def _set_alarm(self, at: int) -> None:
        if self._alarm_at <= at:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        assert self._loop is not None
        delay = max(LEAST_DELAY, at - self.limiter.hub.clock.monotonic())
        self._alarm_at = at
        self._alarm = self._loop.call_later(delay / SECOND, self._ring)

    def _reset(self) -> None:
        for one in tuple(self.waiting):
            self._set_alarm(one.look_at)

    def _ring(self) -> None:
        self._alarm, self._alarm_at = None, NEVER
        waiting = tuple(self.waiting)
        if not waiting or self.limiter.closed:
            return
        for one in waiting:
            one.ask()
        try:
            self.limiter.look()
        except Exception:
            self._set_alarm(self.failed("its worker"))
        else:
            self._reset()

    def _force_local(self) -> None:
        self._stopping = True
        for one in tuple(self.waiting):
            if _local(one):
                one.force()


def _local(one: Permit) -> bool:
    return one.kind == "activity_direct"
