"""Random histories: everything that can happen to admission, in any order, each turn held to the oracle."""

from dataclasses import dataclass, field
from random import Random

from msgspec.structs import replace

from pyrula.model.gate import FOREVER
from pyrula.model.lane import Head, Lane

from .memory import Rows, take_turn
from .oracle import HAIR, Oracle, audit, check_spans

SECOND = 10**6
LIMITS = [b"limit-a", b"limit-b", b"limit-c"]
RATES = [b"rate-a", b"rate-b"]
SETS = [{"A"}, {"B"}, {"A", "B"}, {"B", "C"}, {"A", "B", "C"}]
RATE_STAMPS = [(1, 1, 1), (73, 10, 3), (1, 3, 2), (5, 1, 10), (1000, 1, 1), (1, 7, 1)]


@dataclass
class History:
    seed: int
    rng: Random = field(init=False)
    now: int = 0
    seq: int = 0
    rows: Rows = field(default_factory=Rows)
    oracle: Oracle = field(default_factory=Oracle)
    tell: list = field(default_factory=list)  # what the next floor is told
    started: dict = field(default_factory=dict)  # seq -> (lane, head)
    parked: list = field(default_factory=list)
    lapses: list = field(default_factory=list)  # (when, gate) an override or pause ends
    starts: int = 0

    def __post_init__(self):
        self.rng = rng = Random(self.seed)
        self.mixed = rng.random() < 0.5
        self.stamps = {g: [rng.randint(1, 4) for _ in range(3)] for g in LIMITS}
        self.stamps |= {g: [rng.choice(RATE_STAMPS) for _ in range(3)] for g in RATES}
        share_units = rng.random() < 0.5
        crew = rng.sample(SETS, rng.choice([0, 2, 4]))
        self.crew = [(served, 100) for served in crew]  # alive and with room, whether they come or not
        self.shapes = []
        for i in range(rng.randint(1, 12)):
            workflow = rng.choice("ABC")
            priority = rng.choice([3, 3, 3, 1, 5])
            gates = tuple(rng.sample(LIMITS, rng.randint(0, 2)) + rng.sample(RATES, rng.choice([0, 0, 1, 2])))
            unit = f"{workflow}{priority}{i % 2 if share_units else i}".encode()
            self.shapes.append(Lane(b"lane%02d" % i, unit, workflow, priority, gates))

    def run(self, ops=120):
        weights = [8, 10, 6, 2, 2, 1, 1, 2, 1, 1, 1, 4, 0.5]
        names = [
            self.submit, self.turn, self.finish, self.park, self.resume, self.lapse, self.retry,
            self.cancel, self.restamp, self.override, self.pause, self.forward, self.hog,
        ]  # fmt: skip
        for op in self.rng.choices(names, weights, k=ops):
            op()
        self.drain()
        for bucket in self.oracle.buckets.values():
            check_spans(bucket)

    def head(self, lane, seq):
        pick = (lambda g: self.rng.choice(self.stamps[g])) if self.mixed else (lambda g: self.stamps[g][0])
        return Head(seq, tuple(pick(g) for g in lane.gates), self.rng.choice([1.0, 1.0, 2.0, 0.5]))

    def put(self, lane, head, resumed):
        self.oracle.lanes[lane.id] = lane
        self.oracle.queues.setdefault((lane.id, resumed), {})[head.seq] = head
        told = self.rows.put(replace(lane), head, resumed)
        self.tell.append(lambda floor: floor.resume(told) if resumed else floor.arrive([told]))

    def submit(self):
        lane = self.rng.choice(self.shapes)
        for _ in range(self.rng.choice([1, 1, 2, 8])):
            self.seq += 1
            self.put(lane, self.head(lane, self.seq), False)

    def leave(self):
        """Take one executing run out, its slots given back."""
        if not self.started:
            return None
        return self.end(self.rng.choice(list(self.started)))

    def end(self, seq):
        for gate in self.oracle.executing.pop(seq):
            self.tell.append(lambda floor, gate=gate: floor.give_back(gate))
        return self.started.pop(seq)

    def finish(self):
        for _ in range(self.rng.choice([1, 1, 3])):
            self.leave()

    def park(self):
        if run := self.leave():
            self.parked.append(run)

    def resume(self):
        if self.parked:
            self.put(*self.parked.pop(self.rng.randrange(len(self.parked))), True)

    def lapse(self):
        if run := self.leave():
            self.put(*run, True)

    def retry(self):
        if run := self.leave():
            self.put(*run, False)

    def queued(self):
        queues = self.oracle.queues
        return [(lane, resumed, seq) for (lane, resumed), queue in queues.items() for seq in queue]

    def cancel(self):
        for lane, resumed, seq in self.rng.sample(
            self.queued(), min(len(self.queued()), self.rng.choice([1, 4]))
        ):
            del self.oracle.queues[lane, resumed][seq]
            del self.rows.queues[lane, resumed][seq]
            if lane in self.rows.lanes:
                self.tell.append(lambda floor, lane=lane, seq=seq: floor.removed(lane, seq))

    def restamp(self):
        for lane, resumed, seq in self.rng.sample(self.queued(), min(len(self.queued()), 3)):
            head = self.head(self.oracle.lanes[lane], seq)
            self.oracle.queues[lane, resumed][seq] = self.rows.queues[lane, resumed][seq] = head
            if lane in self.rows.lanes:
                self.tell.append(lambda floor, lane=lane, seq=seq: floor.removed(lane, seq))

    def override(self):
        gate = self.rng.choice(LIMITS + RATES)
        if self.rng.random() < 0.3:
            self.oracle.overrides.pop(gate, None)
        elif gate in LIMITS:
            self.oracle.overrides[gate] = self.rng.randint(1, 6)
        else:
            self.oracle.overrides[gate] = self.rng.choice(RATE_STAMPS)
        self.steer(gate)

    def pause(self):
        gate = self.rng.choice(LIMITS + RATES)
        until = self.rng.choice([0, self.now + self.rng.randrange(3 * SECOND), FOREVER])
        self.oracle.pauses[gate] = until
        self.steer(gate)

    def steer(self, gate):
        if gate in self.rows.gates:
            self.rows.gates[gate].override = self.oracle.overrides.get(gate)
            self.rows.gates[gate].paused_until = self.oracle.pauses.get(gate, 0)
            self.rows.gates[gate].dirty = True
        else:  # a store keeps these by name, for gates that are not there yet, too
            self.oracle.overrides.pop(gate, None)
            self.oracle.pauses.pop(gate, None)

    def forward(self):
        due = [g.wake_at for g in self.rows.gates.values() if g.wake_at is not None and g.wake_at > self.now]
        if due and self.rng.random() < 0.5:
            self.now = min(due)
        else:
            self.now += self.rng.choice([1, 1000, SECOND // 3, SECOND, 5 * SECOND])

    def turn(self, workflows=None, wanted=None, budget=None):
        workflows = workflows or self.rng.choice(SETS)
        wanted = self.rng.choice([0, 1, 1, 2, 5, 100]) if wanted is None else wanted
        budget = budget or self.rng.choice([256, 256, 256, 1, 3])
        tell, self.tell = self.tell, []
        for again in range(1000):
            starts, changes, _ = take_turn(
                self.rows,
                self.now,
                wanted,
                lambda floor, tell=tell: [t(floor) for t in tell],
                workflows,
                budget,
                self.crew,
            )
            assert len(starts) <= wanted
            for start in starts:
                self.check(start, workflows, strict=not changes.more and budget == 256 and not again)
            audit(self.rows, self.now)
            wanted -= len(starts)
            if wanted == 0 and starts and not changes.left:
                left = [k.id for k in self.oracle.lanes.values() if self.could_go(k, workflows)]
                assert changes.more or not left, f"startable, and not told: {left}"
            if not wanted or not changes.more:
                break
            tell = []
        else:
            raise AssertionError("turns go on for ever")
        if wanted:
            left = [k.id for k in self.oracle.lanes.values() if self.could_go(k, workflows)]
            assert not left, f"startable, and left behind: {left}"

    def could_go(self, lane, workflows):
        if any(self.left_for_others(gate, workflows) for gate in lane.gates):
            return False
        return lane.workflow in workflows and self.oracle.startable(lane, self.now, HAIR)

    def left_for_others(self, gate, workflows):
        """Whether its room is left, for the moment, for a live worker of a workflow that has a lane rung there."""
        gate = self.rows.gates.get(gate)
        if gate is None or gate.rota is None or gate.rota.until <= self.now:
            return False
        waiting = {name for name in gate.heralds if name not in workflows}
        return any(waiting & served for served, _ in self.crew if served != workflows)

    def hog(self):
        """One worker ends and starts runs behind a gate, again and again at one instant: it must come to leave room
        for another that waits there, has a worker that is alive, and was not found to be away."""
        gate = self.rng.choice(LIMITS)
        here = [lane for lane in self.shapes if gate in lane.gates]
        pairs = [
            (mine, theirs, served)
            for mine in here
            for theirs in here
            for served in SETS
            if mine.workflow in served and theirs.workflow not in served and theirs.priority <= mine.priority
            if any(theirs.workflow in others for others, _ in self.crew if others != served)
        ]
        if not pairs:
            return
        mine, theirs, served = self.rng.choice(pairs)
        for lane in [theirs] * 2 + [mine] * 30:
            self.seq += 1
            self.put(lane, self.head(lane, self.seq), False)
        starts = 0
        for _ in range(30):
            ends = [seq for seq, (lane, _) in self.started.items() if lane.workflow in served]
            for seq in ends:
                self.end(seq)
            waits = self.could_go_but_for_its_worker(theirs, gate)
            before = set(self.started)
            self.turn(served, 100, 256)
            if waits and not self.rests(gate):
                news = [self.started[seq][0] for seq in self.started.keys() - before]
                starts += sum(gate in lane.gates and lane.priority >= theirs.priority for lane in news)
        assert starts <= 14, f"{starts} starts past one that waited for its worker to look"

    def could_go_but_for_its_worker(self, lane, gate):
        stored = self.rows.lanes.get(lane.id)
        rung = stored is not None and stored.state != "empty" and stored.gate == gate
        return rung and self.oracle.startable(lane, self.now)

    def rests(self, gate):
        rota = self.rows.gates[gate].rota
        return rota is not None and any(share.rests > self.now for share in rota.shares.values())

    def check(self, start, workflows, strict):
        lane = self.oracle.lanes[start.lane_id]
        assert lane.workflow in workflows
        if strict:
            better = [k for k in self.oracle.lanes.values() if k.priority < lane.priority]
            assert not any(self.could_go(k, workflows) for k in better), "a better priority was passed over"
        head = self.oracle.queues[lane.id, start.resumed][start.seq]
        self.oracle.check_and_start(start, self.now)
        self.started[start.seq] = (lane, head)
        self.starts += 1

    def drain(self):
        """Lift all pauses, let everything end: every run gets its start, woken by stored times alone."""
        for gate in LIMITS + RATES:
            if self.oracle.pauses.pop(gate, 0):
                self.steer(gate)
        while self.parked:
            self.resume()
        workers = self.rng.choice([[{"A", "B", "C"}], [{"A"}, {"B"}, {"C"}], [{"B", "C"}, {"A", "B"}]])
        idle = 0
        for _ in range(5000):
            starts = self.starts
            for served in workers:
                self.turn(served, 100, 256)
            if not self.queued():
                return
            due = [g.wake_at for g in self.rows.gates.values() if g.wake_at is not None]
            idle = 0 if self.starts > starts else idle + 1
            if self.started:
                while self.started:
                    self.leave()
            elif idle > 1:
                assert due and min(due) > self.now, "runs are queued, and nothing will ever wake them"
                self.now = min(due)
        raise AssertionError("a run never starts")
