"""What admission asks of a store."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from pyrula.model.gate import Gate, GateId, Stamp, WaitKey
from pyrula.model.lane import Head, Lane, LaneId, Unit, UnitId

ReadyKey = tuple[int, int, UnitId]
"""Place of a unit among those with a ready lane: (priority, virtual time, unit id)."""

WaitingAsk = tuple[GateId, str, Stamp, WaitKey | None, int]
"""(gate, workflow, stamp, after that place, at most n)."""

SiblingAsk = tuple[UnitId, tuple[int, LaneId] | None, int]
"""(unit, after that (wait_seq, lane id), at most n)."""

QueueAsk = tuple[LaneId, bool, int, int]
"""(lane, resumed queue?, after that seq, at most n)."""


class Loader(Protocol):
    """Gives rows as they were when the turn's admission began; what the turn changes, the floor remembers.

    Every answer is a fresh copy that the floor may change. Unknown ids are left out of the mappings: a unit
    or gate that is not there begins unused. Asks come in batches, one round trip each.
    """

    served: bytes
    """Names the set of workflows this worker serves (say, a digest of them): turns are kept fair per set."""

    def serves(self, workflow: str) -> bool:
        """Tell whether this worker runs the workflow."""

    def lanes(self, ids: Sequence[LaneId]) -> Mapping[LaneId, Lane]:
        """These lanes, whichever workflow they are of."""

    def units(self, ids: Sequence[UnitId]) -> Mapping[UnitId, Unit]:
        """These units."""

    def gates(self, ids: Sequence[GateId]) -> Mapping[GateId, Gate]:
        """These gates, with the override and pause in force at the turn's time."""

    def ready(self, after: ReadyKey | None, n: int) -> Sequence[tuple[Lane, Unit]]:
        """The next n served units with `ready > 0` by `ReadyKey`, each with its ready lane of least
        `(wait_seq, id)`."""

    def siblings(self, asks: Sequence[SiblingAsk]) -> Sequence[Sequence[Lane]]:
        """Per ask the unit's next ready lanes by `(wait_seq, id)`."""

    def lines(self, gates: Sequence[GateId]) -> Mapping[GateId, Iterable[tuple[str, Stamp]]]:
        """The distinct (workflow, wait_stamp) of the lanes waiting at each gate, served or not."""

    def waiting(self, asks: Sequence[WaitingAsk]) -> Sequence[Sequence[tuple[Lane, Unit]]]:
        """Per ask the next lanes waiting there with that workflow and stamp, by `Lane.wait_key`."""

    def dirty_gates(self, n: int) -> Sequence[Gate]:
        """At most n gates that are dirty or whose `wake_at` is not after the turn's time."""

    def others(self) -> Mapping[bytes, tuple[Collection[str], int]]:
        """Of the live workers that serve other sets of workflows: by the name of each set (as in `served`) its
        workflows, and how many runs they have room for now, all together."""

    def queue(self, asks: Sequence[QueueAsk]) -> Sequence[list[Head]]:
        """Per ask the lane's next queued runs, by seq."""


class Start(msgspec.Struct, frozen=True, gc=False):
    """One run that may start now, and the limit gates of which it holds a slot from now on."""

    seq: int
    lane_id: LaneId
    resumed: bool
    gates: tuple[GateId, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """What a turn leaves to be written: whole rows, to be inserted or to replace what was stored."""

    lanes: Sequence[Lane] = ()
    units: Sequence[Unit] = ()
    gates: Sequence[Gate] = ()
    vtime: int = 0  # the shard's
    starts: Sequence[Start] = ()  # take these out of their lanes' queues
    more: bool = False  # work is left that could not be done within the budget: take another turn at once
    left: bool = False  # wanted no more, though more may be able to start: a worker that has room is to know
    waits: bool = False  # room was left for other workers, for a moment
    next_at: int | None = None  # µs; the earliest wake time of the gates above
    rung: frozenset[str] = field(default_factory=frozenset)  # workflows this worker doesn't serve that may go
