"""A slot supplier that asks the limiter before each poll.

The SDK reserves a slot, and polls only once it has it; so a worker that is over a limit does not poll. One
permit is one place: held while its poll is open, used while its execution runs, then free again.
"""

from __future__ import annotations

from collections.abc import Callable

from temporalio.worker import (
    CustomSlotSupplier,
    SlotMarkUsedContext,
    SlotPermit,
    SlotReleaseContext,
    SlotReserveContext,
)

from pyrula.temporal.gate import Gate
from pyrula.temporal.permit import Permit, Unlimited
from pyrula.temporal.pollers import Pollers
from pyrula.temporal.waiting import settled


class LimitedSupplier(CustomSlotSupplier):
    """One slot type's supplier. `group`: the pollers that ask; `eager`: what is handed over unpolled."""

    def __init__(
        self,
        gate: Gate,
        group: Callable[[SlotReserveContext], Pollers | None],
        eager: Callable[[SlotReserveContext], Pollers | None],
    ) -> None:
        self.gate = gate
        self._group = group
        self._eager = eager

    def reserve(self, ctx: SlotReserveContext) -> Permit | Unlimited:
        """Ask for a permit, from any thread; no group is never held back."""
        return self.gate.reserve(self._group(ctx))

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        """A permit as soon as the worker is under all its limits. Raises nothing but CancelledError."""
        one = self.reserve(ctx)
        if isinstance(one, Unlimited):
            return one
        return await settled(one, self.gate.limiter.hub.returned.append)

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:
        """A permit for what comes without a poll, if there is room now."""
        group = self._eager(ctx)
        if group is None:
            return None
        one = Permit(self.gate, group)
        return one if self.gate.limiter.ask_unpolled(one) else None

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """The task is handed out."""
        assert isinstance(ctx.permit, (Permit, Unlimited))
        ctx.permit.use()

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        """The task is done, or there was none."""
        assert isinstance(ctx.permit, (Permit, Unlimited))
        ctx.permit.free()
