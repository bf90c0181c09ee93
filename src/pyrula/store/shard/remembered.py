"""What admission left behind, for the next turn: most of what a turn looks at, the turn before it has just written."""

from __future__ import annotations

from pyrula.admission import Changes
from pyrula.model.gate import Gate, GateId
from pyrula.model.lane import Lane, LaneId, Queue, Unit, UnitId
from pyrula.store.shard.tx import Row, Tx

_MOST = 4096
"""Lanes, units or gates that are remembered: what busy turns come back to, not all there are."""


class Remembered:
    """Lanes, units and gates as they are stored, as long as nobody else writes any: then all is forgotten, or of gates
    that were written one by one those."""

    def __init__(self) -> None:
        self._as_of: object = None
        self._lanes: dict[LaneId, tuple[Lane, Row]] = {}
        self.units: dict[UnitId, Unit] = {}
        self.gates: dict[GateId, Gate] = {}

    def recall(self, tx: Tx) -> None:
        """Keep what is known only if it is what is stored. For the beginning of an admission."""
        if self._as_of is None or tx.floor_written != self._as_of:
            self.forget()
        for gate in tx.gates_written:
            self.gates.pop(gate, None)
        tx.gates_written.clear()

    def lane(self, id: LaneId) -> tuple[Lane, Row] | None:
        """A lane and its row, with nothing loaded of its queues."""
        known = self._lanes.get(id)
        if known is not None:
            lane = known[0]
            if lane.fresh.asked:
                lane.fresh = Queue()
            if lane.back.asked:
                lane.back = Queue()
        return known

    def keep(self, tx: Tx, changes: Changes, rows: dict[LaneId, Row]) -> None:
        """Take in what an admission has written. rows: of each lane that it loaded or wrote, as it is stored now."""
        if tx.floor_written is None:
            return
        if max(len(self._lanes), len(self.units), len(self.gates)) > _MOST:
            self.forget()
        self._lanes.update((lane.id, (lane, rows[lane.id])) for lane in changes.lanes)
        self.units.update((unit.id, unit) for unit in changes.units)
        self.gates.update((gate.id, gate) for gate in changes.gates)
        self._as_of = tx.floor_written
        tx.gates_written.clear()

    def forget(self) -> None:
        """Nothing is known."""
        self._as_of = None
        self._lanes.clear()
        self.units.clear()
        self.gates.clear()
