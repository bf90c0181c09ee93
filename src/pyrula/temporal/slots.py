"""A slot supplier that asks the limiter before each poll.

The SDK reserves a slot, and polls only once it has it; so a worker that is over a limit does not poll. One
permit is one place: held while its poll is open, used while its execution runs, then free again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol

from temporalio.worker import (
    CustomSlotSupplier,
    SlotMarkUsedContext,
    SlotPermit,
    SlotReleaseContext,
    SlotReserveContext,
)

from pyrula.clock import SECOND
from pyrula.limiters import Limiter
from pyrula.limiters.asking import Ask
from pyrula.temporal.waiting import LoopFuture

log = logging.getLogger(__name__)

LET_GO_AFTER = SECOND // 10
"""Where the SDK stops a worker for a fatal error it has just cancelled a poll for activities, and one that is handed
out meanwhile is lost: then the stop would wait for it for ever."""


class Place(Protocol):
    """What a permit stands for."""

    def use(self) -> None:
        """Its execution begins."""

    def free(self, used: bool) -> None:
        """Its execution ended (`used`), or it came to nothing."""


class Permit(SlotPermit):
    """A permit that gives its place back even if the SDK loses it."""

    def __init__(self, place: Place | None, limiter: Limiter) -> None:
        self._place = place
        self._limiter = limiter
        self._used = False

    def use(self) -> None:
        """The task is handed out."""
        if self._place is not None and not self._used:
            self._used = True
            self._place.use()

    def free(self) -> None:
        """The task is done, or there was none."""
        place, self._place = self._place, None
        if place is not None:
            place.free(self._used)

    def __del__(self) -> None:
        # A permit handed over just as the SDK gave up is never released. Finalisers run anywhere, under any
        # lock: leave the work to the next call into the hub.
        if self._place is not None:
            self._limiter.hub.returned.append(partial(self._place.free, self._used))
            self._place = None


class Group(Protocol):
    """One group of pollers that reserve together."""

    name: str
    kind: str

    def place(self) -> Place:
        """What a permit of this group stands for."""

    def allow(self) -> bool:
        """Whether the group may hold one more place at all; under the hub's lock."""


class Wait:
    """One coroutine's wait, ended from any thread, by the clock or by the SDK's cancellation."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future = LoopFuture(loop=loop)

    def tell(self, granted: bool) -> None:
        """End the wait, from any thread."""
        with suppress(
            RuntimeError
        ):  # a closed loop: whoever waited is gone, and gives back what it was granted
            self._loop.call_soon_threadsafe(self._wake)

    async def until(self, delay: int) -> None:
        """Wait until told, or for `delay` µs; raises CancelledError where a foreign thread asked for it."""
        if self._future.done():
            self._future = LoopFuture(loop=self._loop)
        timer = self._loop.call_later(max(1000, delay) / SECOND, self._wake)
        try:
            await self._future
        finally:
            timer.cancel()
        if self._future.cancel_requested:
            raise asyncio.CancelledError

    def _wake(self) -> None:
        self._future.wake()


class Gate:
    """Where permits are waited for: the asks of one worker, until it stops."""

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter
        self._announced = self._stopping = False
        self._letting_go: asyncio.TimerHandle | None = None
        self._local: dict[Ask, Wait] = {}
        self._told = False

    def open(self, announced: bool) -> None:
        """A worker begins to run; `announced`: its stop will be told by `let_go`."""
        self.close()
        self._announced = announced

    def close(self) -> None:
        """The worker has stopped."""
        if self._letting_go is not None:
            self._letting_go.cancel()
        self._stopping, self._letting_go = False, None

    def let_go(self) -> None:
        """The worker begins to stop: in a moment local activities run, whatever the limits say. On the worker's loop.

        They hold open the workflow task that the stop waits for, and nobody cancels their wait.
        """
        if self._letting_go is None:
            loop = asyncio.get_running_loop()
            self._letting_go = loop.call_later(LET_GO_AFTER / SECOND, self._force_local)

    def _cancelled(self) -> None:
        """The SDK cancels a poller's wait only when its worker stops, and not always then: the next best sign."""
        if not self._announced:
            self.let_go()

    def _force_local(self) -> None:
        self._stopping = True
        for ask, wait in tuple(self._local.items()):
            self.limiter.force(ask)
            wait.tell(True)

    async def permit(self, group: Group) -> Permit:
        """A permit of `group`, as soon as the limiter grants it. Raises nothing but CancelledError."""
        while True:
            try:
                return await self._wait(group)
            except asyncio.CancelledError:
                self._cancelled()
                raise
            except Exception:  # the SDK would call again at once, thousands of times a second
                if not self._told:
                    self._told = True
                    log.exception("the limiter failed; polls of %s wait until it answers", group.name)
                try:
                    await Wait(asyncio.get_running_loop()).until(SECOND // 2)
                except asyncio.CancelledError:
                    self._cancelled()
                    raise

    async def _wait(self, group: Group) -> Permit:
        loop = asyncio.get_running_loop()
        wait = Wait(loop)
        ask = self.limiter.ask(group.kind, wait.tell, allow=group.allow, group=group.name)
        if group.kind == "activity_direct" and not ask.granted:
            self._local[ask] = wait
            if self._stopping:
                self.limiter.force(ask)
        try:
            while not ask.granted:
                await wait.until(ask.look_at - self.limiter.hub.clock.monotonic())
                if not ask.granted:
                    self.limiter.look()
        except GeneratorExit:  # the loop was closed under us, and this may run in a finaliser, under any lock
            self.limiter.hub.returned.append(partial(self._abandon, ask, group))
            raise
        except BaseException:
            self._abandon(ask, group)
            raise
        finally:
            self._local.pop(ask, None)
        self.limiter.leaves(ask)
        return Permit(group.place(), self.limiter)

    def _abandon(self, ask: Ask, group: Group) -> None:
        if not self.limiter.withdraw(ask):
            self.limiter.release(group.kind, group=group.name)


class LimitedSupplier(CustomSlotSupplier):
    """One slot type's supplier. `group`: the pollers that ask; `eager`: what is handed over unpolled."""

    def __init__(
        self,
        gate: Gate,
        group: Callable[[SlotReserveContext], Group | None],
        eager: Callable[[SlotReserveContext], Group | None],
    ) -> None:
        self._gate = gate
        self._group = group
        self._eager = eager

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        """A permit as soon as the worker is under all its limits; no group is never held back."""
        group = self._group(ctx)
        return Permit(None, self._gate.limiter) if group is None else await self._gate.permit(group)

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:
        """A permit for what comes without a poll, if there is room now."""
        group = self._eager(ctx)
        if group is None or not self._gate.limiter.reserve_unpolled(group.kind, group.name):
            return None
        return Permit(group.place(), self._gate.limiter)

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """The task is handed out."""
        assert isinstance(ctx.permit, Permit)
        ctx.permit.use()

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        """The task is done, or there was none."""
        assert isinstance(ctx.permit, Permit)
        ctx.permit.free()
