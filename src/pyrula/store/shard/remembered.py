"""What admission left behind, for the next turn: most of what a turn looks at, the turn before it has just written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from pyrula.admission import Changes
from pyrula.model.gate import FOREVER, Gate, GateId
from pyrula.model.lane import Lane, LaneId, Queue, Unit, UnitId
from pyrula.store.shard.tx import Row, Tx

_MOST = 4096
"""Lanes, units or gates that are remembered: what busy turns come back to, not all there are."""
_START: Final[Row] = (0, 0)
_STATE, _GATE = 6, 7
"""Columns of a lane's row."""
_WAITING = 2


class Remembered:
    """Lanes, units and gates as they are stored, as long as nobody else writes any: then all is forgotten, or of gates
    that were written one by one those."""

    def __init__(self) -> None:
        self._as_of: object = None
        self._lanes: dict[LaneId, tuple[Lane, Row]] = {}
        self.begins: dict[LaneId, Row] = {}
        """Of each lane a seq before which no fresh run is queued, and one before which no resumed one is."""
        self._waiting: dict[GateId, dict[LaneId, Row]] = {}
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

    def waiting(self, gate: GateId) -> Collection[Row] | None:
        """All lanes that wait at a gate, by their rows; None: that is not known."""
        known, found = self.gates.get(gate), self._waiting.get(gate, {})
        return found.values() if known is not None and known.waiting == len(found) else None

    def keep(
        self, tx: Tx, changes: Changes, rows: Mapping[LaneId, Row], begins: Mapping[LaneId, Row]
    ) -> None:
        """Take in what an admission has written. Of each lane that it loaded or wrote, rows: as it is stored now;
        begins: where its queues began."""
        if tx.floor_written is None:
            return
        if max(len(self._lanes), len(self.begins), len(self.units), len(self.gates)) > _MOST:
            self.forget()
        self.begins.update(begins)
        for lane in changes.lanes:
            id = lane.id
            row, known = rows[id], self._lanes.get(id)
            if known is None or known[1] is not row:
                self._keep_row(lane, row, None if known is None else known[1])
            begin = begins.get(id, _START)
            if not lane.resumed:
                begin = begin[0] if lane.state == "empty" else lane.wait_seq, FOREVER
            self.begins[id] = begin
        self.units.update([(unit.id, unit) for unit in changes.units])
        self.gates.update([(gate.id, gate) for gate in changes.gates])
        self._as_of = tx.floor_written
        tx.gates_written.clear()

    def _keep_row(self, lane: Lane, row: Row, before: Row | None) -> None:
        id = lane.id
        if before is not None and before[_STATE] == _WAITING:
            self._waiting[before[_GATE]].pop(id, None)
        if row[_STATE] == _WAITING:
            self._waiting.setdefault(row[_GATE], {})[id] = row
        self._lanes[id] = lane, row

    def forget(self) -> None:
        """Nothing is known."""
        self._as_of = None
        self._lanes.clear()
        self.begins.clear()
        self._waiting.clear()
        self.units.clear()
        self.gates.clear()
