"""One turn at a time: the rules of admission, each in a sentence."""

import pytest

from pyrula.model.gate import FOREVER
from pyrula.model.lane import Head, Lane

from .memory import Rows, take_turn
from .oracle import audit

SECOND = 10**6
ONE_A_SECOND = (1, 1, 1)


class Scene:
    def __init__(self):
        self.rows = Rows()
        self.now = 0
        self.seq = 0
        self.told = []
        self.changes = None

    def put(self, name, gates=(), numbers=(), priority=3, resumed=False, seq=None):
        self.seq += 1
        lane = Lane(name.encode(), b"unit-" + name.encode(), "W", priority, tuple(g.encode() for g in gates))
        told = self.rows.put(lane, Head(seq or self.seq, numbers), resumed)
        self.told.append(lambda floor: floor.resume(told) if resumed else floor.arrive([told]))
        return seq or self.seq

    def back(self, gate, n=1):
        self.told.append(lambda floor: floor.give_back(gate.encode(), n))

    def steer(self, gate, override=None, paused_until=0):
        row = self.rows.gates[gate.encode()]
        row.override, row.paused_until = override, paused_until
        row.dirty = True

    def cancel(self, name, seq, resumed=False):
        del self.rows.queues[name.encode(), resumed][seq]
        self.told.append(lambda floor: floor.removed(name.encode(), seq))

    def turn(self, wanted=100, now=None):
        self.now = self.now if now is None else now
        told, self.told = self.told, []
        starts, self.changes, _ = take_turn(
            self.rows, self.now, wanted, lambda floor: [t(floor) for t in told]
        )
        audit(self.rows, self.now)
        return [start.seq for start in starts]


@pytest.fixture
def scene():
    return Scene()


def test_a_full_key_does_not_hold_back_another(scene):
    for _ in range(50):
        scene.put("a", ["limit-a"], (1,))
    b = scene.put("b", ["limit-b"], (1,))
    assert scene.turn() == [1, b]


def test_a_run_refused_by_one_gate_takes_nothing_from_another(scene):
    for _ in range(5):
        scene.put("a", ["limit", "rate"], (1, (1, 100, 5)))
    assert scene.turn() == [1]
    for _ in range(100):
        assert scene.turn() == []
    for n in range(2, 6):
        scene.back("limit")
        assert scene.turn() == [n]


def test_lowering_a_limit_below_what_executes_starts_nothing_until_it_is_met(scene):
    for _ in range(9):
        scene.put("a", ["limit"], (5,))
    assert len(scene.turn()) == 5
    scene.steer("limit", override=2)
    assert scene.turn() == []
    for _ in range(3):
        scene.back("limit")
        assert scene.turn() == []
    scene.back("limit")
    assert scene.turn() == [6]


def test_raising_a_limit_starts_queued_runs_at_once(scene):
    for _ in range(6):
        scene.put("a", ["limit"], (1,))
    scene.turn()
    scene.steer("limit", override=3)
    assert scene.turn() == [2, 3]


def test_each_run_goes_by_its_own_stamp_in_order_of_submission(scene):
    for most in (2, 2, 5, 2, 5):
        scene.put("a", ["limit"], (most,))
    assert scene.turn() == [1, 2, 3]
    scene.back("limit")
    assert scene.turn() == []
    scene.back("limit")
    assert scene.turn() == [4, 5]


def test_a_waiter_of_a_higher_maximum_passes_those_that_may_not_go(scene):
    scene.put("hold", ["limit"], (9,))
    scene.put("hold", ["limit"], (9,))
    scene.turn()
    for i in range(20):
        scene.put(f"low{i}", ["limit"], (1,))
    high = scene.put("high", ["limit"], (3,))
    assert scene.turn() == [high]


def test_a_token_that_is_due_starts_the_next_run_and_the_alarm_is_set_anew(scene):
    for name in "abc":
        scene.put(name, ["rate"], (ONE_A_SECOND,))
    assert scene.turn() == [1]
    assert scene.changes.next_at == SECOND
    assert scene.turn(now=SECOND - 1) == []
    assert scene.turn(now=SECOND) == [2]
    assert scene.changes.next_at == 2 * SECOND
    assert scene.turn(now=2 * SECOND) == [3]
    assert scene.changes.next_at is None


def test_cancelled_runs_cost_no_token(scene):
    for _ in range(1000):
        scene.put("a", ["rate"], (ONE_A_SECOND,))
    assert scene.turn() == [1]
    for seq in range(2, 1000):
        scene.cancel("a", seq)
    assert scene.turn() == []
    assert scene.turn(now=SECOND) == [1000]


def test_a_lane_whose_only_run_is_cancelled_is_empty_and_its_gate_forgets_it(scene):
    scene.put("a", ["rate"], (ONE_A_SECOND,))
    scene.turn()
    seq = scene.put("a", ["rate"], (ONE_A_SECOND,))
    scene.turn()
    scene.cancel("a", seq)
    scene.turn()
    assert scene.rows.lanes[b"a"].state == "empty"
    assert scene.turn(now=SECOND) == []
    assert scene.rows.gates[b"rate"].wake_at is None


def test_a_resumed_run_takes_a_slot_and_no_token(scene):
    scene.put("a", ["limit", "rate"], (2, ONE_A_SECOND))
    scene.turn()
    scene.put("a", ["limit", "rate"], (2, ONE_A_SECOND))
    assert scene.turn() == []
    resumed = scene.put("a", ["limit", "rate"], (2, ONE_A_SECOND), resumed=True, seq=1)
    assert scene.turn() == [resumed]
    assert scene.rows.gates[b"limit"].in_use == 2
    assert scene.rows.gates[b"rate"].debt == SECOND


def test_three_resumed_runs_go_to_one_fresh(scene):
    for _ in range(4):
        scene.put("a")
    for seq in range(100, 108):
        scene.put("a", resumed=True, seq=seq)
    assert scene.turn() == [100, 101, 102, 1, 103, 104, 105, 2, 106, 107, 3, 4]


def test_a_resumed_run_goes_when_the_fresh_one_only_misses_a_token(scene):
    for _ in range(3):
        scene.put("a", ["rate"], (ONE_A_SECOND,))
    for seq in range(100, 106):
        scene.put("a", ["rate"], (ONE_A_SECOND,), resumed=True, seq=seq)
    assert scene.turn() == [100, 101, 102, 1, 103, 104, 105]


def test_a_paused_limit_holds_back_resumed_runs_too_and_a_paused_rate_does_not(scene):
    scene.put("a", ["limit"], (5,))
    scene.put("b", ["rate"], ((10, 1, 10),))
    scene.turn()
    scene.steer("limit", paused_until=5 * SECOND)
    scene.steer("rate", paused_until=FOREVER)
    for name, gate, number in (("a", "limit", 5), ("b", "rate", (10, 1, 10))):
        scene.put(name, [gate], (number,))
        scene.put(name, [gate], (number,), resumed=True, seq=100 + len(name + gate))
    assert scene.turn() == [105]
    assert scene.changes.next_at == 5 * SECOND
    assert scene.turn(now=5 * SECOND) == [106, 3]
    scene.steer("rate")
    assert scene.turn() == [5]


def test_a_retry_goes_back_to_its_place_ahead_of_later_runs(scene):
    first = scene.put("a", ["limit"], (1,))
    scene.put("a", ["limit"], (1,))
    scene.turn()
    scene.back("limit")
    scene.put("a", ["limit"], (1,), seq=first)
    assert scene.turn() == [first]


def test_a_waiting_lane_of_better_priority_goes_before_a_ready_one(scene):
    scene.put("low", ["limit"], (1,), priority=5)
    scene.put("low", ["limit"], (1,), priority=5)
    scene.turn()
    high = scene.put("high", ["limit", "other"], (1, 1), priority=1)
    scene.turn()
    scene.put("lower", ["limit"], (1,), priority=4)
    scene.back("limit")
    assert scene.turn() == [high]


def test_a_freed_slot_that_its_first_waiter_cannot_use_goes_to_the_next(scene):
    scene.put("hold", ["x", "y"], (1, 1))
    scene.turn()
    scene.put("both", ["x", "y"], (1, 1))
    only = scene.put("only", ["x"], (1,))
    scene.turn()
    scene.back("x")
    assert scene.turn() == [only]
    scene.back("x")
    scene.back("y")
    assert scene.turn() == [2]


def test_a_turn_that_wants_nothing_starts_nothing_and_loses_nothing(scene):
    for _ in range(3):
        scene.put("a", ["limit"], (1,))
    assert scene.turn(wanted=0) == []
    assert scene.turn(wanted=1) == [1]
    scene.back("limit")
    assert scene.turn(wanted=0) == []
    assert scene.turn(wanted=1) == [2]


def test_a_slot_given_back_twice_is_an_error_and_not_a_second_slot(scene):
    scene.put("a", ["limit"], (1,))
    scene.turn()
    scene.back("limit", 2)
    with pytest.raises(ValueError, match="1 slots in use, 2 given back"):
        scene.turn()


def test_a_lane_that_the_store_does_not_know_is_named(scene):
    scene.told.append(lambda floor: floor.arrive([b"\x01\x02"]))
    with pytest.raises(LookupError, match="0102"):
        scene.turn()


def test_a_burst_of_wakings_is_left_to_further_turns_once_the_budget_is_spent(scene):
    for i in range(40):
        scene.put(f"hold{i}", [f"g{i}"], (1,))
    scene.turn()
    waiting = [scene.put(f"wait{i}", [f"g{i}"], (1,)) for i in range(40)]
    scene.turn()
    for i in range(40):
        scene.back(f"g{i}")
    scene.turn(wanted=0)
    started = []
    for _ in range(40):
        starts, changes, _ = take_turn(scene.rows, 0, 100, budget=7)
        started += [start.seq for start in starts]
        if not changes.more:
            break
    assert sorted(started) == waiting
