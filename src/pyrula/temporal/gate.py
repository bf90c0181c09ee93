"""Where a worker's polls wait for their permits.

A permit is handed over on whatever thread makes room for it: the poll that waits for it leaves without a turn of the
event loop. The loop only keeps the alarm for those who wait.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from pyrula.clock import SECOND
from pyrula.limiters import Limiter
from pyrula.limiters.asking import Ask
from pyrula.temporal.permit import Group, Permit

log = logging.getLogger(__name__)

LET_GO_AFTER = SECOND // 10
"""Where the SDK stops a worker for a fatal error it has just cancelled a poll for activities, and one that is handed
out meanwhile is lost: then the stop would wait for it for ever."""

LEAST_DELAY = SECOND // 1000
"""How far ahead an alarm is set at least, µs."""

FAILED_DELAY = SECOND // 2
"""When a limiter that failed is asked again, µs: the SDK would ask at once, thousands of times a second."""


class Reservation:
    """A request for one permit, granted or cancelled once, from any thread.

    For asyncio it is a future (`asyncio.isfuture`), but that what is to be called when it is granted is called on the
    thread that grants it, and never for one that is cancelled.
    """

    __slots__ = ("_ask", "_gate", "_over", "_permit", "_retry_at", "_then", "group")

    _asyncio_future_blocking = False

    def __init__(self, gate: Gate, group: Group | None) -> None:
        self.group = group
        self._gate = gate
        self._ask: Ask | None = None
        self._permit = Permit(None, gate.limiter) if group is None else None
        self._over = group is None
        self._then: Callable[[Reservation], object] | None = None
        self._retry_at = 0

    @property
    def look_at(self) -> int:
        """When to look again, µs of the hub's clock, as long as it waits."""
        return self._retry_at if self._ask is None else self._ask.look_at

    def ask(self) -> None:
        """Ask the limiter, unless it was asked."""
        group = self.group
        if group is None or self._ask is not None:
            return
        try:
            ask = self._gate.limiter.ask(group.kind, self._tell, allow=group.allow, group=group.name)
        except Exception:
            self._retry_at = self._gate.failed(group.name)
            return
        with self._gate.lock:
            self._ask = ask
            cancelled = self._over
        if cancelled:
            self._abandon(ask, group)
        elif ask.granted:
            self._grant()

    def force(self) -> None:
        """Have it granted whatever the limits say."""
        if self._ask is not None:
            self._gate.limiter.force(self._ask)
            self._tell(self._ask.granted)

    def add_done_callback(self, then: Callable[[Reservation], object], *, context: object = None) -> None:
        """Call `then` once it is granted; to be called on the worker's loop."""
        with self._gate.lock:
            self._then = then
            granted = self._permit is not None
            if not self._over:
                self._gate.waiting.add(self)
        if granted:
            self._hand_over(then)
        else:
            self._gate.watch(self)

    def done(self) -> bool:
        """Whether it was granted or cancelled."""
        return self._over

    def result(self) -> Permit:
        """The permit, once. Raises CancelledError where there is none."""
        with self._gate.lock:
            permit, self._permit = self._permit, None
        if permit is None:
            raise asyncio.CancelledError
        return permit

    def cancel(self) -> bool:
        """The SDK gives up: wait no longer, and give back what it did not take; whether it waited."""
        waited = self.withdraw()
        if waited:
            self._gate.given_up()
        return waited

    def withdraw(self) -> bool:
        """Wait no longer, and give back what nobody took; whether it waited."""
        with self._gate.lock:
            waited, self._over = not self._over, True
            permit, self._permit = self._permit, None
            self._gate.waiting.discard(self)
        if permit is not None:
            permit.free()
        if waited and self._ask is not None and self.group is not None:
            self._abandon(self._ask, self.group)
        return waited

    def _tell(self, granted: bool) -> None:
        if granted:
            self._grant()
        else:
            self._gate.sooner()

    def _grant(self) -> None:
        with self._gate.lock:
            if self._ask is None or self._over or self.group is None:
                return  # whoever asks has not the answer yet and comes here with it, or it was cancelled
            self._over = True
            self._gate.waiting.discard(self)
        permit = Permit(self.group.place(), self._gate.limiter)
        with self._gate.lock:
            self._permit, then = permit, self._then
        del permit
        if then is not None:
            self._hand_over(then)

    def _hand_over(self, then: Callable[[Reservation], object]) -> None:
        if self._ask is not None:
            self._gate.limiter.leaves(self._ask)
        then(self)

    def _abandon(self, ask: Ask, group: Group) -> None:
        if not self._gate.limiter.withdraw(ask):
            self._gate.limiter.release(group.kind, group=group.name)


class Gate:
    """The reservations of one worker, until it stops."""

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter
        self.lock = threading.Lock()
        self.waiting: set[Reservation] = set()
        self.announced = False
        """Whether the worker's stop will be told by `let_go`."""
        self._stopping = False
        self._letting_go: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0
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
        self._stopping, self._letting_go, self._alarm = False, None, None
        self.limiter.hub.returned.extend(one.withdraw for one in tuple(self.waiting))

    def let_go(self) -> None:
        """The worker begins to stop: in a moment local activities run, whatever the limits say. On the worker's loop.

        They hold open the workflow task that the stop waits for, and nobody cancels their wait.
        """
        if self._letting_go is None:
            loop = asyncio.get_running_loop()
            self._letting_go = loop.call_later(LET_GO_AFTER / SECOND, self._force_local)

    def reserve(self, group: Group | None) -> Reservation:
        """Ask for a permit of `group`, from any thread; of none there is always one."""
        made = Reservation(self, group)
        made.ask()
        if self._stopping and _local(made):
            made.force()
        return made

    def given_up(self) -> None:
        """The SDK cancels a wait only when its worker stops, and not always then: the next best sign."""
        if not self.announced:
            self._on_loop(self.let_go)

    def watch(self, one: Reservation) -> None:
        """Look again when `one` says. On the worker's loop."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._alarm = loop, None
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
        if self._alarm is not None:
            if self._alarm_at <= at:
                return
            self._alarm.cancel()
        assert self._loop is not None
        delay = max(LEAST_DELAY, at - self.limiter.hub.clock.monotonic())
        self._alarm_at = at
        self._alarm = self._loop.call_later(delay / SECOND, self._ring)

    def _reset(self) -> None:
        for one in tuple(self.waiting):
            self._set_alarm(one.look_at)

    def _ring(self) -> None:
        self._alarm = None
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


def _local(one: Reservation) -> bool:
    return one.group is not None and one.group.kind == "activity_direct"
