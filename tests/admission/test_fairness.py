"""Turns between units: equal, or in proportion to weight, whatever idles, blocks or is served elsewhere."""

from collections import Counter
from random import Random

import pytest

from pyrula.model.lane import Head, Lane

from .memory import Rows, take_turn


class Shop:
    """Units of given weights, one lane each, always with runs queued."""

    def __init__(self, rng=None):
        self.rows = Rows()
        self.rng = rng or Random(0)
        self.seq = 0
        self.lanes = {}
        self.weights = {}
        self.starts = Counter()
        self.held = []

    def open(self, name, weight=1.0, workflow="W", priority=3, gates=(), numbers=(), runs=3000):
        unit = b"%d/%s/%s" % (priority, workflow.encode(), name.encode())
        lane = Lane(b"lane/" + unit, unit, workflow, priority, gates)
        self.lanes[name], self.weights[name] = lane, weight
        for _ in range(runs):
            self.seq += 1
            told = self.rows.put(lane, Head(self.seq, numbers, weight))
        take_turn(self.rows, 0, 0, lambda floor: floor.arrive([told]), {workflow})

    def turn(self, wanted, workflows=("W",), back=0):
        self.rng.shuffle(self.held)
        given, self.held = self.held[:back], self.held[back:]
        starts, _, _ = take_turn(
            self.rows, 0, wanted, lambda floor: [floor.give_back(g) for g in given], set(workflows)
        )
        self.held += [gate for start in starts for gate in start.gates]
        names = {lane.id: name for name, lane in self.lanes.items()}
        started = [names[start.lane_id] for start in starts]
        self.starts.update(started)
        return started

    def check_bound(self, names, before=None):
        """|starts_i / w_i - starts_j / w_j| <= 1 / w_i + 1 / w_j."""
        served = {n: (self.starts[n] - (before or Counter())[n]) / self.weights[n] for n in names}
        for a in names:
            for b in names:
                bound = 1 / self.weights[a] + 1 / self.weights[b]
                assert abs(served[a] - served[b]) <= bound + 1e-3, (a, b, served)


@pytest.mark.parametrize("seed", range(10))
def test_busy_units_behind_one_gate_share_it_by_weight(seed):
    shop = Shop(Random(seed))
    for i in range(20):
        shop.open(f"u{i:02}", float(1 + i % 3), gates=(b"gate",), numbers=(7,), runs=200)
    shop.turn(100)
    for _ in range(150):
        shop.turn(shop.rng.choice([1, 3, 100]), back=shop.rng.randint(0, 7))
        shop.check_bound(list(shop.lanes))


@pytest.mark.parametrize("seed", range(5))
def test_busy_units_without_gates_share_a_worker_by_weight(seed):
    shop = Shop(Random(seed))
    for i in range(12):
        shop.open(f"u{i:02}", [0.25, 1.0, 2.0, 5.0][i % 4], runs=500)
    for _ in range(150):
        shop.turn(shop.rng.choice([1, 2, 7]))
        shop.check_bound(list(shop.lanes))


def test_a_unit_with_many_lanes_gets_the_turns_of_one():
    shop = Shop()
    for i in range(30):
        lane = Lane(b"many%02d" % i, b"many", "W", 3)
        shop.lanes[f"m{i}"] = lane
        for _ in range(10):
            shop.seq += 1
            told = shop.rows.put(lane, Head(shop.seq))
        take_turn(shop.rows, 0, 0, lambda floor, told=told: floor.arrive([told]), {"W"})
    shop.open("one")
    shop.turn(40)
    assert shop.starts["one"] == 20


def test_the_ready_lanes_of_a_unit_go_by_their_oldest_run():
    rows = Rows()
    order = [b"c", b"a", b"d", b"b"]
    for seq, name in enumerate(order):
        told = rows.put(Lane(name, b"same", "W", 3), Head(seq))
        take_turn(rows, 0, 0, lambda floor, told=told: floor.arrive([told]))
    starts = [take_turn(rows, 0, 1)[0][0].lane_id for _ in order]
    assert starts == order


def test_an_idle_unit_saves_up_no_credit():
    shop = Shop()
    shop.open("busy")
    shop.open("idle", runs=1)
    for _ in range(50):
        shop.turn(10)
    shop.open("idle")
    before = Counter(shop.starts)
    for _ in range(10):
        shop.turn(5)
    shop.check_bound(["busy", "idle"], before)


def test_a_blocked_unit_saves_up_no_credit():
    shop = Shop()
    shop.open("holder", gates=(b"g",), numbers=(1,), runs=1)
    shop.turn(1)
    shop.open("blocked", gates=(b"g",), numbers=(10**6,), runs=1)
    shop.open("stuck", gates=(b"g",), numbers=(1,))
    shop.open("busy")
    for _ in range(50):
        shop.turn(10)
    shop.rows.gates[b"g"].override, shop.rows.gates[b"g"].dirty = 10**6, True
    before = Counter(shop.starts)
    for _ in range(20):
        shop.turn(5)
    shop.check_bound(["busy", "stuck"], before)


def test_a_new_unit_does_not_wait_behind_the_backlog_of_another():
    shop = Shop()
    shop.open("old")
    for _ in range(50):
        shop.turn(10)
    shop.open("new")
    assert "new" in shop.turn(2)


def test_a_new_unit_does_not_starve_the_old_ones():
    shop = Shop()
    for i in range(4):
        shop.open(f"old{i}")
    for _ in range(50):
        shop.turn(10)
    shop.open("new")
    before = Counter(shop.starts)
    for _ in range(20):
        shop.turn(3)
    shop.check_bound(list(shop.lanes), before)


def test_runs_of_a_better_priority_do_not_push_new_units_back():
    shop = Shop()
    shop.open("urgent", priority=1, runs=500)
    for i in range(3):
        shop.open(f"old{i}")
    for _ in range(50):
        shop.turn(10)
    shop.turn(3)
    shop.open("new")
    shop.open("urgent2", priority=1, runs=1)
    before = Counter(shop.starts)
    for _ in range(20):
        shop.turn(3)
    shop.check_bound(["old0", "old1", "old2", "new"], before)


def test_runs_of_a_better_priority_do_not_disturb_the_weights_below():
    shop = Shop()
    shop.open("urgent", 0.1, priority=1, runs=1)
    shop.open("heavy", 3.0)
    shop.open("light", 1.0)
    for i in range(300):
        shop.turn(shop.rng.choice([1, 2, 3]))
        shop.open(f"urgent{i % 2}", 0.1, priority=1, runs=1)
    shop.check_bound(["heavy", "light"])


def test_priority_is_strict():
    shop = Shop()
    shop.open("five", priority=5)
    shop.open("one", priority=1, runs=7)
    shop.open("three", runs=7)
    assert shop.turn(20) == ["one"] * 7 + ["three"] * 7 + ["five"] * 6


def test_workers_of_other_workflows_do_not_disturb_the_weights():
    shop = Shop()
    shop.open("alone", 0.1, workflow="A")
    shop.open("heavy", 3.0, workflow="B")
    shop.open("light", 1.0, workflow="B")
    for _ in range(200):
        shop.turn(5, ["A"])
        shop.turn(shop.rng.choice([1, 2, 3]), ["B"])
    shop.check_bound(["heavy", "light"])


def test_a_workflow_whose_worker_was_away_does_not_starve_the_others():
    shop = Shop()
    shop.open("away", workflow="B")
    shop.open("here", workflow="A")
    for _ in range(50):
        shop.turn(10, ["A"])
    before = Counter(shop.starts)
    for _ in range(20):
        shop.turn(5, ["A", "B"])
    shop.check_bound(["away", "here"], before)
    shop.open("new", workflow="B")
    before = Counter(shop.starts)
    for _ in range(20):
        shop.turn(5, ["A", "B"])
    shop.check_bound(["away", "here", "new"], before)


def test_a_flood_of_new_units_does_not_push_aside_one_that_was_idle():
    shop = Shop()
    shop.open("idle", runs=1)
    shop.open("busy", runs=200)
    for _ in range(10):
        shop.turn(10)
    shop.open("idle", runs=5)
    for i in range(30):
        shop.open(f"new{i}", runs=1)
        shop.turn(1)
    assert shop.starts["idle"] >= 2
