"""What admission asks of a shard, answered from its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyrula.admission import QueueAsk, ReadyKey, SiblingAsk, WaitingAsk
from pyrula.model.gate import Gate, GateId
from pyrula.model.gate import Stamp as Number
from pyrula.model.lane import Head, Lane, LaneId, Unit, UnitId
from pyrula.policies.stamp import Stamp
from pyrula.store.shard import rows
from pyrula.store.shard.hold import SLOT_GATE
from pyrula.store.shard.overrides import Overrides
from pyrula.store.shard.remembered import Remembered
from pyrula.store.shard.tx import Row, Tx

_FEW = 9
"""Lanes at a gate that are read without asking which lines they form."""
_LANE, _UNIT = 13, 15
"""Columns of a lane in a joined row; behind them a seq before which no fresh run of it is queued, one before which
no resumed one is, and its unit."""


class Stamps:
    """Stamps by digest. They never change, so a process reads each once."""

    def __init__(self) -> None:
        self._stamps: dict[bytes, Stamp] = {}
        self._terms: dict[tuple[bytes, bytes], tuple[tuple[Number, ...], float]] = {}
        self._keeping: dict[bytes, frozenset[int]] = {}

    def get(self, tx: Tx, digest: bytes) -> Stamp:
        """The stamp of this digest."""
        stamp = self._stamps.get(digest)
        if stamp is None:
            stamp = self._stamps[digest] = Stamp.decode(tx.rows("admit.stamp", digest)[0][0])
        return stamp

    def terms(self, tx: Tx, digest: bytes, plan: bytes) -> tuple[tuple[Number, ...], float]:
        """A stamp's numbers, aligned with the gates of a lane, and its weight."""
        terms = self._terms.get((digest, plan))
        if terms is None:
            stamp = self.get(tx, digest)
            numbers = tuple(1 if at == SLOT_GATE else stamp.gates[at].number for at in plan)
            terms = self._terms[digest, plan] = numbers, stamp.weight
        return terms

    def keeping(self, tx: Tx, digest: bytes) -> frozenset[int]:
        """The places of those of its gates of which a run keeps a slot while parked."""
        keeping = self._keeping.get(digest)
        if keeping is None:
            gates = self.get(tx, digest).gates
            keeping = frozenset(at for at, gate in enumerate(gates) if gate.hold == "run")
            self._keeping[digest] = keeping
        return keeping


class ShardLoader:
    """A `pyrula.admission.Loader` for one turn. plans: of each lane that was loaded, how its gates map to stamps;
    stored: its row as it was; begins: before which seq no fresh run of it is queued, and before which no resumed one.
    """

    def __init__(
        self,
        tx: Tx,
        served: frozenset[str],
        stamps: Stamps,
        overrides: Overrides,
        remembered: Remembered,
    ) -> None:
        self._tx = tx
        self._served = served
        self._stamps = stamps
        self._overrides = overrides
        self._remembered = remembered
        self.plans: dict[LaneId, bytes] = {}
        self.seen: dict[LaneId, Lane] = {}
        self.stored: dict[LaneId, Row] = {}
        self._units: dict[UnitId, Unit] = {}  # those that came with their lanes, until they are asked for
        self.begins: dict[LaneId, Row] = {}
        self._few: dict[GateId, list[Row]] = {}  # all lanes that wait at a gate, where they are few
        self.served = rows.served_digest(served)

    def stamp(self, digest: bytes) -> Stamp:
        """The stamp of this digest."""
        return self._stamps.get(self._tx, digest)

    def serves(self, workflow: str) -> bool:
        return workflow in self._served

    def _lane(self, row: Row) -> Lane:
        self.begins[row[0]] = row[_LANE:_UNIT]
        return self._seen(rows.lane_of(row[:_LANE]), row[:_LANE])

    def _seen(self, lane: Lane, row: Row) -> Lane:
        self.plans[lane.id], self.stored[lane.id] = row[5], row
        self.seen[lane.id] = lane
        return lane

    def _with_unit(self, row: Row) -> tuple[Lane, Unit]:
        return self._lane(row), Unit(row[1], row[_UNIT], row[_UNIT + 1])

    def lanes(self, ids: Sequence[LaneId]) -> Mapping[LaneId, Lane]:
        found, missing = {}, []
        begins = self._remembered.begins
        for id in ids:
            known = self._remembered.lane(id)
            if known is None:
                missing.append((id,))
            else:
                lane, row = known
                self.begins.setdefault(id, begins[id])  # a bell knows better
                self.plans[id], self.stored[id] = row[5], row
                found[id] = self.seen[id] = lane
        for row in self._tx.match("loader.lane", missing) if missing else ():
            found[row[0]] = self._lane(row)
            if row[_UNIT] is not None:
                self._units[row[1]] = Unit(row[1], row[_UNIT], row[_UNIT + 1])
        return found

    def units(self, ids: Sequence[UnitId]) -> Mapping[UnitId, Unit]:
        found = {id: self._units.pop(id) for id in ids if id in self._units}
        known = self._remembered.units
        found |= {id: known[id] for id in ids if id in known}
        if len(found) < len(ids):
            missing = [(id,) for id in ids if id not in found]
            found |= {row[0]: Unit(*row) for row in self._tx.match("loader.unit", missing)}
        return found

    def gates(self, ids: Sequence[GateId]) -> Mapping[GateId, Gate]:
        known = self._remembered.gates
        found = {id: known[id] for id in ids if id in known}
        missing = [(id,) for id in ids if id not in found]
        for row in self._tx.match("loader.gate", missing) if missing else ():
            found[row[0]] = self._gate(row)
        return found

    def dirty_gates(self, n: int) -> Sequence[Gate]:
        return [self._gate(row) for row in self._tx.rows("loader.dirty", self._tx.now, n)]

    def _gate(self, row: Row) -> Gate:
        id, name, key, kind, in_use, debt, at, q, paused, waiting, dirty, wake_at, heralds = row
        rung, rota = rows.heralds_of(heralds)
        gate = Gate(
            id,
            rows.KINDS[kind],
            in_use,
            int(debt),
            at,
            q,
            None,
            paused,
            bool(dirty),
            wake_at,
            waiting,
            rung,
            rota,
        )
        if self._overrides:
            find = self._overrides.limit if gate.kind == "limit" else self._overrides.rate
            gate.override = find(name, key)
            gate.paused_until = max(paused, self._overrides.paused_until(name, key))
        return gate

    def ready(self, after: ReadyKey | None, n: int) -> Sequence[tuple[Lane, Unit]]:
        priority, vtime, unit = after or (0, 0, b"")
        asks = [(workflow, priority, vtime, unit, n) for workflow in self._served]
        found = self._tx.match("loader.ready", asks)
        found.sort(key=lambda row: (row[3], row[_UNIT], row[1]))
        return [self._with_unit(row) for row in found[:n]]

    def siblings(self, asks: Sequence[SiblingAsk]) -> Sequence[Sequence[Lane]]:
        answers = []
        for unit, after, n in asks:
            seq, lane = after or (-1, b"")
            answers.append([self._lane(row) for row in self._tx.rows("loader.siblings", unit, seq, lane, n)])
        return answers

    def lines(self, gates: Sequence[GateId]) -> Mapping[GateId, Sequence[tuple[str, Number]]]:
        found: dict[GateId, list[tuple[str, Number]]] = {}
        few: dict[GateId, list[Row]] = {}
        unknown = []
        for gate in gates:
            waiting = self._remembered.waiting(gate)
            if waiting is None or len(waiting) >= _FEW:
                unknown.append((gate, _FEW))
            elif waiting:
                few[gate] = list(waiting)
        for row in self._tx.match("loader.few_waiting", unknown):
            few.setdefault(row[7], []).append(row)
        crowds = [gate for gate, waiting in few.items() if len(waiting) == _FEW]
        for gate in crowds:
            del few[gate]
        self._few |= few
        lines = [(gate, row[2], row[10]) for gate, waiting in few.items() for row in waiting]
        if crowds:
            lines += self._tx.match("loader.lines", [(gate,) for gate in crowds])
        for gate, workflow, stamp in dict.fromkeys(lines):
            found.setdefault(gate, []).append((workflow, rows.number_of(stamp)))
        return found

    def waiting(self, asks: Sequence[WaitingAsk]) -> Sequence[Sequence[tuple[Lane, Unit]]]:
        params = []
        for gate, workflow, stamp, after, n in asks:
            params.append((gate, workflow, rows.number_text(stamp), *(after or rows.BEFORE_ALL), n))
        found = [row for ask in params if ask[0] in self._few for row in _next(self._few[ask[0]], ask)]
        found += self._tx.match("loader.waiting", [ask for ask in params if ask[0] not in self._few])
        answers: dict[tuple[bytes, str, str], list[tuple[Lane, Unit]]] = {ask[:3]: [] for ask in params}
        units = self.units(list({row[1]: None for row in found if len(row) == _LANE}))
        for row in found:
            entry = self._remembered_with_unit(row, units) if len(row) == _LANE else self._with_unit(row)
            answers[row[7], row[2], row[10]].append(entry)
        return [answers[ask[:3]] for ask in params]

    def _remembered_with_unit(self, row: Row, units: Mapping[UnitId, Unit]) -> tuple[Lane, Unit]:
        """Of the row of a lane that waits and is remembered. One that was handed out before is no longer as it was."""
        known = self._remembered.lane(row[0]) if row[0] not in self.seen else None
        self.begins.setdefault(row[0], self._remembered.begins[row[0]])
        lane = self._seen(rows.lane_of(row) if known is None else known[0], row)
        return lane, units.get(row[1]) or Unit(row[1])

    def queue(self, asks: Sequence[QueueAsk]) -> Sequence[list[Head]]:
        answers: dict[tuple[bytes, int], list[Head]] = {}
        params = []
        for lane, back, after, n in asks:
            begin = self.begins.get(lane)
            known = -1 if begin is None else begin[back] - 1
            params.append((lane, int(back), after if after > known else known, n))
            answers[lane, back] = []
        last: tuple[LaneId, int, bytes] | None = None
        for lane, resumed, seq, digest in self._tx.match("loader.queue", params):
            if (lane, resumed, digest) != last:  # those of a lane come together as a rule, and are alike
                last = lane, resumed, digest
                numbers, weight = self._stamps.terms(self._tx, digest, self.plans[lane])
                answer = answers[lane, resumed]
            answer.append(Head(seq, numbers, weight))
        return list(answers.values())

    def others(self) -> Mapping[bytes, tuple[frozenset[str], int]]:
        found: dict[bytes, tuple[frozenset[str], int]] = {}
        for serves, facts, executing in self._tx.rows("loader.others", self._tx.now):
            served, names, most = rows.worker_of(serves, bytes(facts))
            if served != self.served:
                found[served] = names, found.get(served, (names, 0))[1] + max(0, most - executing)
        return found


def _next(waiting: Sequence[Row], ask: Row) -> list[Row]:
    """Of all lanes that wait at a gate what "loader.waiting" answers for these parameters of it."""
    _, workflow, stamp, *after, n = ask
    line = [(rows.place_of(row), row) for row in waiting if (row[2], row[10]) == (workflow, stamp)]
    return [row for place, row in sorted(line) if place > tuple(after)][:n]
