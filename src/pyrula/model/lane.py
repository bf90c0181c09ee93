"""The lane, its queued runs, and the unit it takes turns for."""

from functools import lru_cache

import msgspec

from pyrula.model.gate import GateId, Stamp, WaitKey

LaneId = bytes
UnitId = bytes

ONE_START: int = 2**20
"""The virtual time that a start of weight 1 costs its unit."""


@lru_cache(1024)
def cost(weight: float) -> int:
    """The virtual time that a start costs a unit of this weight."""
    return max(1, round(ONE_START / weight))


class Head(msgspec.Struct, frozen=True, gc=False):
    """A queued run as admission sees it: its place, its stamp at each gate of its lane, its weight."""

    seq: int
    numbers: tuple[Stamp, ...] = ()  # aligned with the lane's gates
    weight: float = 1.0


class Queue(msgspec.Struct, gc=False):
    """The loaded front of one of a lane's two queues, its first run last."""

    heads: list[Head] = []
    after: int = -1  # seq of the last head loaded
    more: bool = True  # the store may hold some behind it
    asked: int = 0  # how many were asked for last


class Lane(msgspec.Struct, gc=False):
    """A FIFO of queued runs alike in workflow, priority and gates: empty, ready, or waiting at one gate."""

    id: LaneId
    unit: UnitId
    workflow: str
    priority: int
    gates: tuple[GateId, ...] = ()  # each once
    state: str = "empty"  # "empty", "ready" or "waiting"
    gate: GateId | None = None  # waiting: where; ready: the gate that rang it, if one did
    wait_vtime: int = 0  # its unit's virtual time when it began to wait
    wait_seq: int = 0  # its head's seq when it became ready or began to wait
    wait_stamp: Stamp = 0  # its head's stamp at `gate`
    resumed: bool = False  # it may have resumed runs
    streak: int = 0  # resumed starts since the last fresh one, counted while a fresh one was there
    back: Queue = msgspec.field(default_factory=Queue)  # resumed runs; not stored
    fresh: Queue = msgspec.field(default_factory=Queue)  # the others; not stored

    @property
    def wait_key(self) -> WaitKey:
        """Its place in the line of the gate it waits at."""
        return (self.priority, self.wait_vtime, self.wait_seq, self.id)


class Unit(msgspec.Struct, gc=False):
    """What gets equal turns: a workflow's fairness key at one priority."""

    id: UnitId
    vtime: int = 0  # grows by ONE_START / weight per start
    ready: int = 0  # ready lanes it has
