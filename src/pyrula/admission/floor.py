"""The floor: one turn of admission, from what happened to who starts."""

from collections import defaultdict
from collections.abc import Iterable

from pyrula.admission.bench import Bench
from pyrula.admission.lines import Lines
from pyrula.admission.loader import Changes, Loader, Start
from pyrula.admission.rota import Rotas
from pyrula.admission.rows import Rows
from pyrula.admission.rules import admits, opens_at, take_token, unhindered
from pyrula.model.gate import FOREVER, Gate, GateId, Stamp
from pyrula.model.lane import Head, Lane, LaneId, Unit, cost

RESUMED_IN_A_ROW = 3


class Floor:
    """Decides, in one turn of a shard, which queued runs start; loads through `loader`, writes nothing.

    First tell it all that happened (`arrive`, `resume`, `removed`, `give_back`), the queues being stored already as
    they are now, and steered gates as dirty; then `admit` once; then write `changes` in the same transaction.

    now: µs, the shard's time. vtime: the shard's virtual time, as last written. budget: how many dirty gates
    are taken up, and how many lanes looked at in vain, before the turn leaves the rest to the next.
    """

    def __init__(self, loader: Loader, now: int, vtime: int = 0, budget: int = 256) -> None:
        self._loader = loader
        self._now = now
        self._budget = budget
        self._rows = Rows(loader, vtime)
        self._bench = Bench(self._rows)
        self._arrived: dict[LaneId, Lane | None] = {}
        self._resumed: dict[LaneId, Lane | None] = {}
        self._removed: defaultdict[LaneId, set[int]] = defaultdict(set)
        self._given_back: defaultdict[GateId, int] = defaultdict(int)
        self._called_back: set[GateId] = set()
        self._starts: list[Start] = []
        self._rung: set[str] = set()
        self._rotas = Rotas(self._rows, now, self._rung)
        self._lines = Lines(self._rows, now, self._rotas)
        self._more = False

    # What happened. Nothing is loaded before admit().

    def arrive(self, lanes: Iterable[LaneId | Lane]) -> None:
        """Fresh runs joined these lanes, at whatever place; a lane not stored yet is given by value."""
        self._arrived.update((lane.id, lane) if isinstance(lane, Lane) else (lane, None) for lane in lanes)

    def resume(self, lane: LaneId | Lane) -> None:
        """Resumed runs joined the lane: parked ones that may go on, or those of a lapsed lease."""
        self._resumed.update([(lane.id, lane) if isinstance(lane, Lane) else (lane, None)])

    def removed(self, lane: LaneId, seq: int) -> None:
        """A queued run was cancelled, has expired or was stamped anew: the lane may have another head."""
        self._removed[lane].add(seq)

    def give_back(self, gate: GateId, n: int = 1) -> None:
        """n slots of a limit were given back."""
        self._given_back[gate] += n

    # What follows from it.

    def admit(self, wanted: int) -> list[Start]:
        """Start at most `wanted` runs, each with a slot or token of every gate of its lane.

        With 0 nothing is looked at but what was told, and nothing is lost for the next turn.
        """
        self._rows.left = wanted
        self._settle()
        if wanted > 0:
            due = self._loader.dirty_gates(self._budget)
            self._more = len(due) >= self._budget
            self._rows.adopt_gates(due)
            for gate in due:
                self._rows.mark(self._rows.gates[gate.id])
        vain = 0
        while self._rows.left > 0:
            if self._rows.dirty:
                self._ring()
            lane = self._bench.best()
            if lane is None:
                break
            if vain >= self._budget:
                self._more = True
                break
            if not self._look(lane):
                vain += 1
        return self._starts

    def changes(self) -> Changes:
        """All that the turn has changed."""
        self._settle()
        rows = self._rows
        gates = [rows.gates[gate] for gate in rows.changed_gates]
        later = [gate.wake_at for gate in gates if gate.wake_at is not None and gate.wake_at > self._now]
        return Changes(
            lanes=[rows.lanes[lane] for lane in rows.changed_lanes],
            units=[rows.units[unit] for unit in rows.changed_units],
            gates=gates,
            vtime=rows.vtime,
            starts=self._starts,
            more=self._more,
            left=rows.left <= 0 and (bool(self._rows.dirty) or self._bench.occupied),
            waits=self._rotas.left,
            next_at=min(later, default=None),
            rung=frozenset(self._rung),
        )

    def _settle(self) -> None:
        """Take in what happened: counters first, then every lane whose head may be another."""
        rows = self._rows
        lanes = self._told_lanes()
        rows.load_units(lane.unit for lane in lanes)
        rows.prepare(lanes, self._given_back)
        for gate_id, n in self._given_back.items():
            gate = rows.gates[gate_id]
            if n > gate.in_use:
                raise ValueError(f"gate {gate_id.hex()}: {gate.in_use} slots in use, {n} given back")
            gate.in_use -= n
            rows.mark(gate)
        rows.changed_gates.update(self._given_back)
        for lane in lanes:
            unit = rows.adopt(lane)
            if lane.state != "empty":
                self._leave(lane, unit)
            self._place(lane, unit)
        for told in (self._arrived, self._resumed, self._removed, self._given_back):
            told.clear()

    def _told_lanes(self) -> list[Lane]:
        """Of the lanes that something happened to, those whose head may be another."""
        told = dict.fromkeys(self._removed) | self._arrived | self._resumed
        lanes = self._rows.load([lane_id for lane_id, new in told.items() if new is None])
        lanes |= {new.id: new for new in told.values() if new is not None}
        moved = []
        behind = []  # a fresh run may still be ahead of the head: a retry goes back to its place
        for lane in lanes.values():
            if lane.id in self._resumed:
                lane.resumed = True
                moved.append(lane)
            elif lane.state == "empty":
                if lane.id in self._arrived:
                    moved.append(lane)
            elif lane.wait_seq in self._removed.get(lane.id, ()):
                moved.append(lane)
            elif lane.id in self._arrived and not lane.resumed:
                behind.append(lane)
        self._rows.load_heads(behind, 1)
        return moved + [
            lane for lane in behind if lane.fresh.heads and lane.fresh.heads[-1].seq < lane.wait_seq
        ]

    def _ring(self) -> None:
        """Wake, at each dirty gate, the best waiter of each workflow that may pass.

        One is enough: on leaving the bench, for whatever reason, it makes the gate dirty again, so the next
        is rung before anybody else is picked. And one per workflow is needed: a worker that serves none of
        the lanes rung so far must find the room that they have not taken.
        """
        dirty = self._rows.dirty
        while dirty:
            batch = list(dirty.values())
            dirty.clear()
            self._lines.open(batch)
            for gate in batch:
                gate.dirty = False
                best, opens = self._lines.first(gate)
                for workflow, (key, line) in best.items():
                    herald = gate.heralds.get(workflow)
                    if herald is None or key < herald:
                        lane, unit = self._lines.pop(line, key)
                        gate.waiting -= 1
                        gate.heralds[workflow] = key
                        self._make_ready(lane, unit, gate.id)
                gate.wake_at = opens if gate.waiting else None
                self._rows.changed_gates.add(gate.id)

    def _look(self, lane: Lane) -> bool:
        """Start the lane's head, or send the lane to wait at the gate that refuses it."""
        rows = self._rows
        unit = rows.units[lane.unit]
        head, resumed = rows.next(lane)
        if head is None:
            self._leave(lane, unit)
            self._place(lane, unit)
            return False
        if not unhindered(rows.gates, lane.gates, head.numbers, self._now):
            if self._call_back(lane):
                self._bench.moves_on(lane)
                return True
            refused_by = self._refused_by(lane, head, resumed)
            if refused_by is not None:
                self._leave(lane, unit)
                self._wait(lane, unit, head, refused_by)
                return False
        if resumed and lane.streak >= RESUMED_IN_A_ROW:
            fresh = rows.first(lane, False)
            if fresh is not None and self._refused_by(lane, fresh, False) is None:
                head, resumed = fresh, False
        self._start(lane, unit, head, resumed)
        rows.changed_lanes.add(lane.id)
        head, _ = rows.next(lane)
        if head is None:
            self._leave(lane, unit)
        elif lane.gate is None and unhindered(rows.gates, lane.gates, head.numbers, self._now):
            lane.wait_seq = head.seq  # it stays ready, as most do
            self._bench.moves_on(lane)
        else:
            self._leave(lane, unit)
            self._place(lane, unit)
        return True

    def _call_back(self, lane: Lane) -> bool:
        """Have those looked at first, once a turn, who wait at the lane's gates because another worker left its room to
        others: this one may let them pass, and one of a better priority may be among them.
        """
        gates = [self._rows.gates[gate] for gate in lane.gates if gate not in self._called_back]
        gates = [gate for gate in gates if gate.waiting and gate.rota and gate.rota.until > self._now]
        self._called_back.update(gate.id for gate in gates)
        gates = [gate for gate in gates if self._lines.turned_away(gate)]
        for gate in gates:
            self._rows.mark(gate)
        return bool(gates)

    def _start(self, lane: Lane, unit: Unit, head: Head, resumed: bool) -> None:
        """Take its slots and tokens, and move its unit's virtual time on."""
        rows = self._rows
        slots, last = 0, -1
        for at, stamp in enumerate(head.numbers):
            gate = rows.gates[lane.gates[at]]
            if isinstance(stamp, int):
                gate.in_use += 1
                slots, last = slots + 1, at
            elif resumed:
                continue
            else:
                rows.mark(gate)
                take_token(gate, stamp, self._now)
            heralds = gate.heralds
            if gate.rota is not None or (heralds and len(heralds) > (lane.workflow in heralds)):
                self._rotas.started(gate, stamp, self._lines.workflows)
            rows.changed_gates.add(gate.id)
        clock = rows.clock(lane.priority)
        if unit.vtime > clock.vtime:
            clock.vtime = unit.vtime
            rows.vtime = max(rows.vtime, clock.vtime)
        unit.vtime = clock.vtime + cost(head.weight)
        rows.changed_units.add(clock.id)
        rows.changed_units.add(unit.id)
        if resumed:
            lane.back.heads.pop()
            lane.streak = min(lane.streak + 1, RESUMED_IN_A_ROW) if rows.first(lane, False) else 0
        else:
            lane.fresh.heads.pop()
            lane.streak = 0
        rows.left -= 1
        held = lane.gates[:slots] if last < slots else _limits(lane, head)  # limits come first as a rule
        self._starts.append(Start(head.seq, lane.id, resumed, held))

    def _leave(self, lane: Lane, unit: Unit) -> None:
        """Take the lane from where it is. If a gate rang it, the next there is to be rung."""
        if lane.state == "waiting" and lane.gate is not None:
            gate = self._rows.gates[lane.gate]
            gate.waiting -= 1
            self._rows.changed_gates.add(gate.id)
        elif lane.state == "ready":
            unit.ready -= 1
            self._rows.changed_units.add(unit.id)
            self._bench.left(lane)
            if lane.gate is not None:
                gate = self._rows.gates[lane.gate]
                if gate.heralds.get(lane.workflow, (0, 0, 0, b""))[3] == lane.id:
                    del gate.heralds[lane.workflow]
                    self._rows.changed_gates.add(gate.id)
                self._rows.mark(gate)
        lane.state, lane.gate = "empty", None

    def _place(self, lane: Lane, unit: Unit) -> None:
        """Send a lane that is nowhere to where its head may start, or to where it must wait."""
        self._rows.changed_lanes.add(lane.id)
        head, resumed = self._rows.next(lane)
        if head is None:
            return
        if not unhindered(self._rows.gates, lane.gates, head.numbers, self._now):
            refused_by = self._refused_by(lane, head, resumed)
            if refused_by is not None:
                self._wait(lane, unit, head, refused_by)
                return
            behind = self._others_wait(lane, resumed)
            if behind is not None:  # it is rung when it is the best of them
                self._wait(lane, unit, head, behind)
                self._rows.mark(self._rows.gates[lane.gates[behind]])
                return
        lane.wait_seq = head.seq
        self._make_ready(lane, unit, None)

    def _make_ready(self, lane: Lane, unit: Unit, rung_by: GateId | None) -> None:
        rows = self._rows
        lane.state, lane.gate = "ready", rung_by
        rows.changed_lanes.add(lane.id)
        rows.changed_units.add(unit.id)
        unit.ready += 1
        if not rows.serves(lane.workflow):
            self._rung.add(lane.workflow)
            return
        if unit.ready == 1:
            # Neither an idle nor a blocked unit saves up credit.
            unit.vtime = max(unit.vtime, rows.clock(lane.priority).vtime)
        self._bench.add(lane, unit)

    def _wait(self, lane: Lane, unit: Unit, head: Head, at: int) -> None:
        """Put a lane that is nowhere into the line of one of its gates."""
        gate = self._rows.gates[lane.gates[at]]
        lane.state, lane.gate = "waiting", gate.id
        lane.wait_seq, lane.wait_stamp = head.seq, head.numbers[at]
        lane.wait_vtime = unit.vtime
        opens = opens_at(gate, lane.wait_stamp, self._now)
        if self._rows.serves(lane.workflow):
            lane.wait_vtime = max(unit.vtime, self._rows.clock(lane.priority).vtime)
            if gate.rota is not None and gate.rota.until and (opens is None or opens <= self._now):
                opens = gate.rota.until
        gate.waiting += 1
        if opens is not None and (gate.wake_at is None or opens < gate.wake_at):
            gate.wake_at = opens
        self._lines.join(lane, gate)
        self._rows.changed_lanes.add(lane.id)
        self._rows.changed_gates.add(gate.id)

    def _refused_by(self, lane: Lane, head: Head, resumed: bool) -> int | None:
        """Which gate of the lane refuses its head: a limit rather than a rate, of rates the latest."""
        found, latest = None, -1
        for at, stamp in enumerate(head.numbers):
            if resumed and not isinstance(stamp, int):
                continue
            gate = self._rows.gates[lane.gates[at]]
            opens: int | None
            if admits(gate, stamp, self._now):
                if gate.rota is None or not self._left_for_others(gate, stamp, lane):
                    continue
                opens = gate.rota.until
            else:
                opens = opens_at(gate, stamp, self._now)
            if isinstance(stamp, int):
                return at
            if opens is None:
                opens = FOREVER
            if opens > latest:
                found, latest = at, opens
        return found

    def _others_wait(self, lane: Lane, resumed: bool) -> int | None:
        """The first gate of the lane at which others wait for what its head is about to take."""
        for at, gate_id in enumerate(lane.gates):
            gate = self._rows.gates[gate_id]
            if gate.waiting and not (resumed and gate.kind == "rate"):
                return at
        return None

    def _left_for_others(self, gate: Gate, stamp: Stamp, lane: Lane) -> bool:
        return self._rows.serves(lane.workflow) and self._rotas.withholds(gate, stamp, lane.priority, {})


def _limits(lane: Lane, head: Head) -> tuple[GateId, ...]:
    pairs = zip(lane.gates, head.numbers, strict=True)
    return tuple(gate for gate, stamp in pairs if isinstance(stamp, int))
