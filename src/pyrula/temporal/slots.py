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

from pyrula.temporal.gate import Gate, Reservation
from pyrula.temporal.permit import Group, Permit
from pyrula.temporal.waiting import settled


class LimitedSupplier(CustomSlotSupplier):
    """One slot type's supplier. `group`: the pollers that ask; `eager`: what is handed over unpolled."""

    def __init__(
        self,
        gate: Gate,
        group: Callable[[SlotReserveContext], Group | None],
        eager: Callable[[SlotReserveContext], Group | None],
    ) -> None:
        self.gate = gate
        self._group = group
        self._eager = eager

    def reserve(self, ctx: SlotReserveContext) -> Reservation:
        """Ask for a permit, from any thread; no group is never held back."""
        return self.gate.reserve(self._group(ctx))

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        """A permit as soon as the worker is under all its limits. Raises nothing but CancelledError."""
        return await settled(self.reserve(ctx), self.gate.limiter.hub.returned.append)

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:
        """A permit for what comes without a poll, if there is room now."""
        group = self._eager(ctx)
        if group is None or not self.gate.limiter.reserve_unpolled(group.kind, group.name):
            return None
        return Permit(group.place(), self.gate.limiter)

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """The task is handed out."""
        assert isinstance(ctx.permit, Permit)
        ctx.permit.use()

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        """The task is done, or there was none."""
        assert isinstance(ctx.permit, Permit)
        ctx.permit.free()
