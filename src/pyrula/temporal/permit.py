"""A permit is one place: asked for before a poll, held while it is open, used while its execution runs, then free.

One object is all of it, from the request to the end: every activity needs one, and each object more, and each call
between two of them, costs several times what it costs in a loop by itself, on threads that come to it cold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from temporalio.worker import SlotPermit

from pyrula.limiters.asking import Ask
from pyrula.temporal.pollers import Pollers

if TYPE_CHECKING:
    from pyrula.temporal.gate import Gate


class Permit(Ask, SlotPermit):
    """A permit, which may have to wait: granted or cancelled once, from any thread.

    For asyncio it is a future (`asyncio.isfuture`) of itself, but that what is to be called when it is granted is
    called on the thread that grants it, and never for one that is cancelled. It gives its place back even if the SDK
    loses it.
    """

    __slots__ = ("_asked", "_begun", "_free", "_gate", "_over", "_then")

    _asyncio_future_blocking = False

    group: Pollers

    def __init__(self, gate: Gate, group: Pollers) -> None:
        Ask.__init__(self, gate.limiter, group.kind, group)
        self._gate = gate
        self._asked = False
        self._over = False
        """Whether it was taken or cancelled."""
        self._then: Callable[[Permit], object] | None = None
        self._begun: object | None = None
        self._free = False

    # -- a request

    def ask(self) -> None:
        """Ask the limiter, unless it was asked."""
        if self._asked or self.granted:
            return
        try:
            at_once = self.limiter.ask(self)
        except Exception:
            self.look_at = self._gate.failed(self.group.name)
            return
        self._asked = True
        if at_once:
            self.told()
        elif self._over:  # it was cancelled before it was asked for
            self.withdraw()

    def force(self) -> None:
        """Have it granted whatever the limits say."""
        if self.limiter.force(self):
            self.told()

    def told(self) -> None:
        """It is granted: whoever listens is called, here and now."""
        self._gate.waiting.discard(self)
        then = self._then
        if then is not None and not self._over:
            self._hand_over(then)

    def sooner(self) -> None:
        """It is to be looked at earlier than was said."""
        self._gate.sooner()

    def add_done_callback(self, then: Callable[[Permit], object], *, context: object = None) -> None:
        """Call `then` once it is granted; to be called on the worker's loop."""
        with self.limiter.hub.lock:
            granted = self.granted
            if not granted:
                self._then = then
                if not self._over:
                    self._gate.waiting.add(self)
        if not granted:
            self._gate.watch(self)
        elif not self._over:
            self._hand_over(then)

    def done(self) -> bool:
        """Whether it was granted or cancelled."""
        return self.granted or self._over

    def result(self) -> Permit:
        """The permit, once. Raises CancelledError where there is none."""
        with self.limiter.hub.lock:
            if self._over or not self.granted:
                raise asyncio.CancelledError
            self._over = True
        return self

    def cancel(self) -> bool:
        """The SDK gives up: wait no longer, and give back what it did not take; whether it waited."""
        waited = self.withdraw()
        if waited:
            self._gate.given_up()
        return waited

    def withdraw(self) -> bool:
        """Wait no longer, and give back what nobody took; whether it waited."""
        with self.limiter.hub.lock:
            over, self._over = self._over, True
        waited = self.limiter.withdraw(self)
        self._gate.waiting.discard(self)
        if not waited and not over:
            self.free()
        return waited and not over

    def _hand_over(self, then: Callable[[Permit], object]) -> None:
        self.limiter.leaves(self)
        then(self)

    # -- a place

    def use(self) -> None:
        """The task is handed out."""
        if self._begun is None:
            self._begun = self.group.begin()

    def free(self) -> None:
        """The task is done, or there was none."""
        if not self._free:
            self._free = True
            self.group.end(self._begun)

    def __del__(self) -> None:
        # A permit handed over just as the SDK gave up is never released. Finalisers run anywhere, under any
        # lock: leave the work to the next call into the hub.
        if self.granted and not self._free:
            self.limiter.hub.returned.append(partial(self.group.end, self._begun))


class Unlimited(SlotPermit):
    """The permit of what is never held back: it is always there, and is no place."""

    _asyncio_future_blocking = False

    def add_done_callback(self, then: Callable[[Any], object], *, context: object = None) -> None:
        """Call `then`."""
        then(self)

    def done(self) -> bool:
        """It is."""
        return True

    def result(self) -> Unlimited:
        """Itself."""
        return self

    def cancel(self) -> bool:
        """There is nothing to cancel."""
        return False

    def use(self) -> None:
        """It counts nothing."""

    def free(self) -> None:
        """It counts nothing."""
