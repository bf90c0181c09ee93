"""What a turn reads does not depend on how many runs, lanes or gates wait: rows per run, at two sizes."""

import pytest

from pyrula.model.lane import Head, Lane

from .memory import Rows, take_turn

READ = ("lanes", "ready", "siblings", "waiting", "gates", "dirty")
SIZES = [200, 1000]


class Meter:
    """Adds up the lanes and gates that turns read, and the runs they started."""

    def __init__(self):
        self.rows = Rows()
        self.now = 0
        self.seq = 0
        self.cost = self.starts = self.worst = self.worst_calls = 0
        self.held = []

    def reset(self):
        self.cost = self.starts = self.worst = self.worst_calls = 0

    def turn(self, tell=lambda floor: None, wanted=100, new=0):
        starts, changes, loader = take_turn(self.rows, self.now, wanted, tell)
        cost = new + sum(loader.read[what] for what in READ)
        self.cost += cost
        self.worst = max(self.worst, cost)
        self.worst_calls = max(self.worst_calls, sum(loader.calls.values()))
        self.starts += len(starts)
        self.held += [gate for start in starts for gate in start.gates]
        return starts, changes

    def submit(self, lanes, numbers, each=1, wanted=0):
        """New lanes with `each` runs, arriving 100 a turn."""
        for i in range(0, len(lanes), 100):
            told = []
            for lane in lanes[i : i + 100]:
                for _ in range(each):
                    self.seq += 1
                    told.append(self.rows.put(lane, Head(self.seq, numbers)))
            fresh = sum(isinstance(one, Lane) for one in told)
            self.turn(lambda floor, told=told: floor.arrive(told), wanted, fresh)

    def give_back(self, n):
        back, self.held = self.held[:n], self.held[n:]

        def tell(floor):
            for gate in back:
                floor.give_back(gate)

        return tell


def lanes(n, *gates):
    """n lanes of as many units; a gate that ends in * is each lane's own."""
    return [
        Lane(b"lane%05d" % i, b"unit%05d" % i, "W", 3, tuple(g.replace(b"*", b"%05d" % i) for g in gates))
        for i in range(n)
    ]


@pytest.mark.parametrize("n", SIZES)
def test_many_tenants_behind_one_gate_cost_one_lane_on_arrival_and_two_rows_a_start(n):
    meter = Meter()
    meter.submit(lanes(n, b"gate"), (10,), wanted=100)
    assert meter.starts == 10
    assert meter.cost / n < 1.2
    meter.reset()
    while meter.starts < n - 10:
        meter.turn(meter.give_back(10))
    assert meter.cost / meter.starts < 2.3
    assert meter.worst_calls <= 10


@pytest.mark.parametrize("n", SIZES)
def test_what_queues_behind_full_gates_is_not_looked_at(n):
    meter = Meter()
    meter.submit(lanes(n, b"gate*"), (1,), each=10, wanted=100)
    while meter.turn()[0]:
        pass
    assert meter.starts == n
    meter.reset()
    bells = [meter.rows.put(lane, Head(meter.seq + i, (1,))) for i, lane in enumerate(lanes(n, b"gate*"), 1)]
    for lane in lanes(n, b"gate*"):
        for extra in range(9):
            meter.rows.put(lane, Head(10**6 + extra, (1,)))
    meter.turn(lambda floor: floor.arrive(bells))
    assert meter.cost / (10 * n) <= 0.11
    meter.reset()
    for _ in range(10):
        meter.turn()
    assert meter.cost == 0


@pytest.mark.parametrize("n", SIZES)
def test_a_global_gate_over_tenants_with_own_limit_and_rate_costs_a_few_rows_a_start(n):
    meter = Meter()
    meter.submit(lanes(n, b"global", b"limit*", b"rate*"), (100, 2, (5, 1, 10)), each=20)
    meter.reset()
    for _ in range(40):
        backs = []
        for start in [] if not meter.held else [meter.held[i : i + 2] for i in range(0, len(meter.held), 2)]:
            backs += start
        meter.held = []
        meter.turn(lambda floor, backs=backs: [floor.give_back(gate) for gate in backs])
        meter.now += 100_000
    assert meter.starts >= 100 * 39
    assert meter.cost / meter.starts < 5.5
    assert meter.worst_calls <= 16


@pytest.mark.parametrize("n", SIZES)
def test_a_rate_shared_by_many_lanes_costs_three_rows_a_start(n):
    meter = Meter()
    meter.submit(lanes(n, b"rate"), ((100, 1, 1),), each=2, wanted=100)
    meter.reset()
    for _ in range(150):
        (gate,) = meter.rows.gates.values()
        meter.now = gate.wake_at
        starts, _ = meter.turn()
        assert len(starts) == 1
    assert meter.cost / meter.starts <= 3.0


@pytest.mark.parametrize("n", SIZES)
def test_an_override_that_lets_everybody_go_costs_two_rows_a_start(n):
    meter = Meter()
    meter.submit(lanes(n, b"gate"), (1,), wanted=100)
    meter.reset()
    meter.rows.gates[b"gate"].override, meter.rows.gates[b"gate"].dirty = 10**6, True
    meter.turn()
    while meter.turn()[0]:
        pass
    assert meter.starts == n - 1
    assert meter.cost / meter.starts < 2.0
    assert meter.worst <= 250
    assert meter.worst_calls <= 10


@pytest.mark.parametrize("wanted", [1, 10])
def test_taking_few_at_a_time_costs_no_more(wanted):
    meter = Meter()
    meter.submit(lanes(500, b"gate"), (1,), wanted=1)
    meter.reset()
    meter.rows.gates[b"gate"].override, meter.rows.gates[b"gate"].dirty = 10**6, True
    meter.turn(wanted=wanted)
    for _ in range(100):
        meter.turn(wanted=wanted)
    assert meter.starts >= min(499, 100 * wanted)
    assert meter.cost / meter.starts < 4


def test_a_unit_of_many_ready_lanes_does_not_make_others_wait_behind_them():
    meter = Meter()
    crowd = [Lane(b"crowd%04d" % i, b"a", "W", 3) for i in range(800)]
    meter.submit(crowd, ())
    meter.submit([Lane(b"one", b"b", "W", 3)], ())
    meter.reset()
    starts, _ = meter.turn(wanted=2)
    assert {start.lane_id for start in starts} == {b"crowd0000", b"one"}
    assert meter.cost <= 8


def test_gates_that_never_open_together_cost_no_more_than_the_budget():
    meter = Meter()
    meter.submit(
        [Lane(b"x", b"x", "W", 3, (b"left",)), Lane(b"y", b"y", "W", 3, (b"right",))], (1,), wanted=2
    )
    meter.submit(lanes(400, b"left", b"right"), (1, 1), wanted=100)
    meter.reset()
    meter.turn(lambda floor: floor.give_back(b"left"))
    assert meter.starts == 0
    starts, changes, loader = take_turn(meter.rows, 0, 100, budget=50)
    assert not starts
    assert changes.more
    assert sum(loader.read[what] for what in READ) < 200
