"""The way from the SDK's native part to a slot supplier, without a turn of the event loop for each permit.

The SDK's own way runs two coroutines for each permit, five turns of a loop that is busy with the very activities the
permits are for, and the poll waits meanwhile: a supplier that does nothing loses a sixth of the throughput there. Its
native part needs a future and no coroutine; what is given to it here is granted wherever there is room.

This replaces one class of the SDK's own, which is not of its public interface. `tuner` looks whether it has the shape
that is known here, and where it has not leaves all to the SDK: slower, and as exact.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from temporalio.bridge import worker as _native
from temporalio.worker import SlotReserveContext, WorkerTuner, _tuning

from pyrula.temporal.permit import Permit, Unlimited
from pyrula.temporal.slots import LimitedSupplier
from pyrula.temporal.threads import remember

KINDS = (
    "workflow_slot_supplier",
    "activity_slot_supplier",
    "local_activity_slot_supplier",
    "nexus_slot_supplier",
)


class Crossing:
    """What the SDK's native part calls. `reserve_slot` and the others run on its threads, under Python's lock."""

    def __init__(self, supplier: LimitedSupplier) -> None:
        self._supplier = supplier
        self.try_reserve_slot = supplier.try_reserve_slot
        self.mark_slot_used = supplier.mark_slot_used
        self.release_slot = supplier.release_slot

    def reserve_slot(self, ctx: SlotReserveContext, created: Callable[[Any], object]) -> Permit | Unlimited:
        """A permit, granted or not; `created` takes what the SDK is to cancel when it gives up."""
        remember()
        made = self._supplier.reserve(ctx)
        # Where the stop is told there is no need to: the SDK would cross once more for each permit, to cancel what
        # is granted, before its poll leaves.
        if not self._supplier.gate.announced:
            created(made)
        return made


class CrossingTuner(WorkerTuner):
    """A tuner as `public`, whose suppliers are reached by a `Crossing`."""

    def __init__(self, public: WorkerTuner, suppliers: Mapping[str, LimitedSupplier]) -> None:
        self._public = public
        self._suppliers = suppliers

    def _get_workflow_task_slot_supplier(self) -> Any:
        return self._public._get_workflow_task_slot_supplier()

    def _get_activity_task_slot_supplier(self) -> Any:
        return self._public._get_activity_task_slot_supplier()

    def _get_local_activity_task_slot_supplier(self) -> Any:
        return self._public._get_local_activity_task_slot_supplier()

    def _get_nexus_slot_supplier(self) -> Any:
        return self._public._get_nexus_slot_supplier()

    def _to_bridge_tuner(self) -> Any:
        holder, native = _found()
        return holder(**{kind: native(Crossing(one)) for kind, one in self._suppliers.items()})


def tuner(
    *,
    workflow: LimitedSupplier,
    activity: LimitedSupplier,
    local_activity: LimitedSupplier,
    nexus: LimitedSupplier,
) -> WorkerTuner:
    """A tuner of these suppliers."""
    public = WorkerTuner.create_composite(
        workflow_supplier=workflow,
        activity_supplier=activity,
        local_activity_supplier=local_activity,
        nexus_supplier=nexus,
    )
    suppliers = dict(zip(KINDS, (workflow, activity, local_activity, nexus), strict=True))
    return CrossingTuner(public, suppliers) if known() else public


def known() -> bool:
    """Whether this SDK calls a slot supplier in the way that `Crossing` answers."""
    sdk: Any = getattr(_tuning, "_BridgeSlotSupplierWrapper", None)
    holder, native = _found()
    if sdk is None or native is None or not is_dataclass(holder):
        return False
    calls = {name for name in vars(sdk) if not name.startswith("_")}
    return (
        calls == {"reserve_slot", "try_reserve_slot", "mark_slot_used", "release_slot"}
        and tuple(inspect.signature(sdk.reserve_slot).parameters) == ("self", "ctx", "reserve_cb")
        and tuple(one.name for one in fields(holder)) == KINDS
    )


def _found() -> tuple[Any, Any]:
    """What holds the suppliers for the native part, and what stands for one of them there; None if not found."""
    return getattr(_native, "TunerHolder", None), getattr(_native, "BridgeCustomSlotSupplier", None)
