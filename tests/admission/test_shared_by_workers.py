"""A gate shared by workflows that different workers serve: no slot is lost on a worker that is away."""

from pyrula.model.lane import Head, Lane

from .memory import Rows, take_turn
from .oracle import audit


class Shared:
    """Lanes of workflows A and B behind one limit of 1, which an A run holds."""

    def __init__(self, b_lanes=5, b_priority=1, a_lanes=3):
        self.rows = Rows()
        self.seq = 0
        self.add("A", b"holder", 3)
        self.go({"A"})
        for i in range(b_lanes):
            self.add("B", b"b%03d" % i, b_priority)
        for i in range(a_lanes):
            self.add("A", b"a%03d" % i, 3)

    def add(self, workflow, name, priority, runs=1):
        lane = Lane(name, b"unit-" + name, workflow, priority, (b"gate",))
        for _ in range(runs):
            self.seq += 1
            told = self.rows.put(lane, Head(self.seq, (1,)))
        self.go({"A"}, 0, lambda floor: floor.arrive([told]))

    def go(self, workflows, wanted=10, tell=lambda floor: None):
        starts, self.changes, self.loader = take_turn(self.rows, 0, wanted, tell, workflows)
        audit(self.rows, 0)
        return [start.lane_id for start in starts]

    def give_back(self, workflows, wanted=10):
        return self.go(workflows, wanted, lambda floor: floor.give_back(b"gate"))

    def ready(self, workflow):
        return [k.id for k in self.rows.lanes.values() if k.state == "ready" and k.workflow == workflow]


def test_a_slot_is_not_lost_on_a_waiter_whose_worker_is_away():
    shared = Shared()
    assert shared.give_back({"A"}) == [b"a000"]
    assert shared.give_back({"A"}) == [b"a001"]


def test_the_worker_that_comes_back_finds_its_waiter_rung_and_takes_the_slot():
    shared = Shared()
    assert shared.give_back({"A"}, wanted=0) == []
    assert shared.go({"B"}) == [b"b000"]
    assert shared.go({"A"}) == []


def test_those_who_serve_nobody_there_leave_the_slot_to_the_others():
    shared = Shared()
    assert shared.give_back({"C"}) == []
    assert shared.changes.rung == {"A", "B"}
    assert not shared.changes.more
    assert shared.go({"C"}) == []
    assert shared.go({"A"}) == [b"a000"]


def test_waiters_of_a_worker_that_is_away_are_rung_once_not_once_a_turn():
    shared = Shared(b_lanes=50, a_lanes=40)
    for i in range(40):
        assert shared.give_back({"A"}) == [b"a%03d" % i]
        assert len(shared.ready("B")) == 1
        assert shared.loader.read["waiting"] <= 2
    assert shared.give_back({"B"}) == [b"b000"]


def test_a_better_waiter_that_arrives_later_goes_before_the_one_already_rung():
    shared = Shared(b_priority=4)
    shared.give_back({"A"}, wanted=0)
    shared.go({"C"})
    assert shared.ready("B") == [b"b000"]
    shared.add("B", b"urgent", 1)
    assert shared.go({"B"}, wanted=1) == [b"urgent"]


def test_a_lane_rung_and_then_emptied_passes_the_slot_on():
    shared = Shared()
    shared.give_back({"C"})
    assert shared.ready("B") == [b"b000"]
    (seq,) = shared.rows.queues.pop((b"b000", False))
    shared.go({"C"}, 0, lambda floor: floor.removed(b"b000", seq))
    assert shared.go({"B"}) == [b"b001"]


def test_a_turn_that_wants_one_of_many_free_slots_leaves_the_others_to_the_next_turn_of_anybody():
    shared = Shared()
    shared.rows.gates[b"gate"].override, shared.rows.gates[b"gate"].dirty = 4, True
    assert shared.go({"A", "B"}, 1) == [b"b000"]
    assert shared.go({"A"}, 1) == [b"a000"]
    assert shared.go({"B"}, 5) == [b"b001"]
    assert shared.go({"A", "B"}) == []
