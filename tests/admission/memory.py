"""A store of rows in memory: what a real one keeps, answered by plain sorting, every row counted."""

from collections import Counter
from copy import deepcopy

from msgspec.structs import replace

from pyrula.admission import Changes, Floor
from pyrula.model.gate import Gate
from pyrula.model.lane import Head, Lane, Queue, Unit


class Rows:
    def __init__(self):
        self.lanes: dict[bytes, Lane] = {}
        self.units: dict[bytes, Unit] = {}
        self.gates: dict[bytes, Gate] = {}
        self.queues: dict[tuple[bytes, bool], dict[int, Head]] = {}
        self.vtime = 0

    def put(self, lane: Lane, head: Head, resumed: bool = False) -> Lane | bytes:
        """Queue a run; answers what a floor is to be told of: the lane, by value if it is new."""
        self.queues.setdefault((lane.id, resumed), {})[head.seq] = head
        return lane.id if lane.id in self.lanes else lane

    def write(self, changes: Changes) -> None:
        for lane in changes.lanes:
            self.lanes[lane.id] = replace(lane, back=Queue(), fresh=Queue())
        for unit in changes.units:
            self.units[unit.id] = replace(unit)
        for gate in changes.gates:
            self.gates[gate.id] = deepcopy(gate)
        for start in changes.starts:
            del self.queues[start.lane_id, start.resumed][start.seq]
        self.vtime = changes.vtime


class MemoryLoader:
    def __init__(self, rows: Rows, now: int, workflows=None, crew=()):
        self.rows, self.now, self.workflows = rows, now, workflows
        self.served = named(workflows) if workflows is not None else b"all"
        self.crew = crew
        self.read = Counter()
        self.calls = Counter()

    def others(self):
        self.calls["others"] += 1
        found = {named(served): (served, room) for served, room in self.crew}
        found.pop(self.served, None)
        return found

    def _count(self, what, n):
        self.calls[what] += 1
        self.read[what] += n

    def serves(self, workflow):
        return self.workflows is None or workflow in self.workflows

    def _pick(self, what, table, ids, copy):
        found = {i: copy(table[i]) for i in ids if i in table}
        self._count(what, len(found))
        return found

    def lanes(self, ids):
        return self._pick("lanes", self.rows.lanes, ids, _lane)

    def units(self, ids):
        return self._pick("units", self.rows.units, ids, replace)

    def gates(self, ids):
        return self._pick("gates", self.rows.gates, ids, deepcopy)

    def ready(self, after, n):
        best = {}
        for lane in self.rows.lanes.values():
            if lane.state == "ready" and self.serves(lane.workflow):
                key = (lane.wait_seq, lane.id)
                if lane.unit not in best or key < best[lane.unit][0]:
                    best[lane.unit] = (key, lane)
        found = []
        for _, lane in best.values():
            unit = self.rows.units[lane.unit]
            found.append(((lane.priority, unit.vtime, unit.id), lane, unit))
        found = sorted((f for f in found if after is None or f[0] > after), key=lambda f: f[0])[:n]
        self._count("ready", len(found))
        return [(_lane(lane), replace(unit)) for _, lane, unit in found]

    def siblings(self, asks):
        answers = []
        for unit, after, n in asks:
            lanes = [k for k in self.rows.lanes.values() if k.state == "ready" and k.unit == unit]
            lanes = sorted((k for k in lanes if after is None or _age(k) > after), key=_age)
            answers.append([_lane(k) for k in lanes[:n]])
        self._count("siblings", sum(map(len, answers)))
        return answers

    def _waiting_at(self, gate):
        return [k for k in self.rows.lanes.values() if k.state == "waiting" and k.gate == gate]

    def lines(self, gates):
        found = {
            g: sorted({(k.workflow, k.wait_stamp) for k in self._waiting_at(g)}, key=repr) for g in gates
        }
        self._count("lines", sum(map(len, found.values())))
        return found

    def waiting(self, asks):
        answers = []
        for gate, workflow, stamp, after, n in asks:
            line = [k for k in self._waiting_at(gate) if (k.workflow, k.wait_stamp) == (workflow, stamp)]
            line = sorted((k for k in line if after is None or k.wait_key > after), key=lambda k: k.wait_key)
            answers.append(
                [(_lane(k), replace(self.rows.units.get(k.unit) or Unit(k.unit))) for k in line[:n]]
            )
        self._count("waiting", sum(map(len, answers)))
        return answers

    def dirty_gates(self, n):
        due = [
            g
            for g in self.rows.gates.values()
            if g.dirty or (g.wake_at is not None and g.wake_at <= self.now)
        ]
        due = sorted(due, key=lambda g: g.id)[:n]
        self._count("dirty", len(due))
        return [deepcopy(g) for g in due]

    def queue(self, asks):
        answers = []
        for lane, resumed, after, n in asks:
            queue = self.rows.queues.get((lane, resumed), {})
            answers.append([queue[seq] for seq in sorted(queue) if seq > after][:n])
        self._count("queue", sum(map(len, answers)))
        return answers


def named(workflows):
    return repr(sorted(workflows)).encode()


def _age(lane):
    return (lane.wait_seq, lane.id)


def _lane(lane):
    return replace(lane, back=Queue(), fresh=Queue())


def take_turn(rows, now, wanted=100, tell=lambda floor: None, workflows=None, budget=256, crew=()):
    """One whole turn, written back: (starts, changes, loader). crew: live workers, (what they serve, their room)."""
    loader = MemoryLoader(rows, now, workflows, crew)
    floor = Floor(loader, now, rows.vtime, budget)
    tell(floor)
    starts = floor.admit(wanted)
    changes = floor.changes()
    rows.write(changes)
    return starts, changes, loader
