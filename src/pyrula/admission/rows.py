"""The turn's working copies: every row it has loaded, and which of them it has changed."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import chain

from pyrula.admission.loader import Loader, QueueAsk
from pyrula.model.gate import Gate, GateId
from pyrula.model.lane import Head, Lane, LaneId, Queue, Unit, UnitId

PRIORITIES = range(1, 6)


class Rows:
    """What is on the floor. It loads in batches, sized by what the turn can still use."""

    def __init__(self, loader: Loader, vtime: int) -> None:
        self.loader = loader
        self.vtime = vtime
        self.left = 0  # runs that the turn still wants
        self.lanes: dict[LaneId, Lane] = {}
        self.units: dict[UnitId, Unit] = {}
        self.gates: dict[GateId, Gate] = {}
        self.stored_waiters: set[GateId] = set()  # gates at which lanes wait that may not be loaded
        self.changed_lanes: set[LaneId] = set()
        self.changed_units: set[UnitId] = set()
        self.changed_gates: set[GateId] = set()
        self.dirty: dict[GateId, Gate] = {}  # whose waiters are to be looked at before anybody is picked
        self._clocks: dict[int, Unit] = {}
        self._serves: dict[str, bool] = {}

    def serves(self, workflow: str) -> bool:
        """Tell whether this worker runs the workflow."""
        answer = self._serves.get(workflow)
        if answer is None:
            answer = self._serves[workflow] = self.loader.serves(workflow)
        return answer

    def clock(self, priority: int) -> Unit:
        """The virtual time of the unit picked last, of those that workers like this serve at this priority.

        One clock for all would not do: workers of other workflows, or runs of a higher priority, would carry
        it ahead, and a new unit would begin behind everybody's backlog. It is kept like a unit of its own.
        """
        if not self._clocks:
            ids = {
                p: blake2b(b"%d" % p + self.loader.served, digest_size=16, person=b"clock").digest()
                for p in PRIORITIES
            }
            found = self.loader.units(list(ids.values()))
            for p, clock_id in ids.items():
                self._clocks[p] = self.units[clock_id] = found.get(clock_id) or Unit(clock_id, self.vtime)
        return self._clocks[priority]

    def load(self, ids: Sequence[LaneId]) -> dict[LaneId, Lane]:
        """These lanes by id, as they are on the floor or else in the store; none is put on the floor yet."""
        missing = [lane for lane in ids if lane not in self.lanes]
        found = self.loader.lanes(missing) if missing else {}
        lost = [lane.hex() for lane in missing if lane not in found]
        if lost:
            raise LookupError(f"no such lane in the store: {', '.join(lost)}; a new lane is given as a Lane")
        return {lane: self.lanes[lane] if lane in self.lanes else found[lane] for lane in ids}

    def adopt(self, lane: Lane, unit: Unit | None = None) -> Unit:
        """Put a loaded lane on the floor; answers its unit as it is on the floor."""
        self.lanes.setdefault(lane.id, lane)
        known = self.units.get(lane.unit)
        if known is None:
            known = self.units[lane.unit] = unit or Unit(lane.unit)
        return known

    def load_units(self, ids: Iterable[UnitId]) -> None:
        """Put these units on the floor."""
        missing = [unit for unit in dict.fromkeys(ids) if unit not in self.units]
        if missing:
            self.units.update(self.loader.units(missing))

    def adopt_gates(self, gates: Iterable[Gate]) -> None:
        """Put these gates on the floor, but for those that are there already."""
        for gate in gates:
            if gate.id not in self.gates:
                self.gates[gate.id] = gate
                if gate.waiting:
                    self.stored_waiters.add(gate.id)

    def mark(self, gate: Gate) -> None:
        """Have the gate's waiters looked at, if it has any."""
        if gate.waiting or gate.dirty or gate.wake_at is not None:
            gate.dirty = True
            self.dirty[gate.id] = gate
            self.changed_gates.add(gate.id)

    def prepare(self, lanes: Sequence[Lane], gates: Iterable[GateId] = ()) -> None:
        """Load what looking at these lanes takes: the fronts of their queues, and their gates (and these)."""
        self.load_heads(lanes, 1 + -(-self.left // max(1, len(lanes))))
        wanted = dict.fromkeys(chain(gates, chain.from_iterable(lane.gates for lane in lanes)))
        missing = [gate for gate in wanted if gate not in self.gates]
        if not missing:
            return
        found = self.loader.gates(missing)
        self.adopt_gates(found.values())
        if len(found) == len(missing):
            return
        for lane in lanes:
            heads = lane.back.heads or lane.fresh.heads
            for gate, number in zip(lane.gates, heads[-1].numbers if heads else (), strict=False):
                if gate not in self.gates:
                    self.gates[gate] = Gate(gate, "limit" if isinstance(number, int) else "rate")

    def first(self, lane: Lane, resumed: bool) -> Head | None:
        """The first run of one of the lane's queues."""
        queue = lane.back if resumed else lane.fresh
        if not queue.heads and queue.more and (lane.resumed or not resumed):
            self.load_heads([lane], min(1 + self.left, max(2, 2 * queue.asked)))
        if queue.heads:
            return queue.heads[-1]
        if resumed and lane.resumed:
            lane.resumed = False
            self.changed_lanes.add(lane.id)
        return None

    def next(self, lane: Lane) -> tuple[Head | None, bool]:
        """The head that decides for the lane, and whether it is a resumed one: those go first."""
        if lane.resumed:
            head = self.first(lane, True)
            if head is not None:
                return head, True
        elif heads := lane.fresh.heads:  # the usual case
            return heads[-1], False
        return self.first(lane, False), False

    def load_heads(self, lanes: Sequence[Lane], n: int) -> None:
        """Load the next n runs of those queues of these lanes that have none loaded."""
        asks: list[QueueAsk] = []
        queues: list[Queue] = []
        for lane in lanes:
            queue = lane.fresh
            if queue.more and not queue.heads:
                asks.append((lane.id, False, queue.after, n))
                queues.append(queue)
            if lane.resumed and not lane.back.heads and lane.back.more:
                asks.append((lane.id, True, lane.back.after, n))
                queues.append(lane.back)
        for queue, heads in zip(queues, self.loader.queue(asks) if asks else (), strict=True):
            queue.more, queue.asked = len(heads) >= n, n
            if heads:
                queue.after = heads[-1].seq
                heads.reverse()
                queue.heads = heads
