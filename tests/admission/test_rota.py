"""A gate that workers of different workflows draw on is shared evenly among them, and no place waits for nobody."""

from collections import Counter
from random import Random

import pytest

from pyrula.admission.rota import WINDOW
from pyrula.model.gate import Rota, Share
from pyrula.model.lane import Head, Lane

from .memory import Rows, take_turn
from .oracle import audit

GATE = b"gate"
LIMIT_OF_1 = (1,)
A_SECOND = 10**6
A_RUN = A_SECOND // 5
IN_TURN = ("ab" * 20, "ba" * 20)


class Scene:
    """Workers that each serve some workflows, one lane each, all with a backlog behind one gate."""

    def __init__(self, *sets, number=1, rooms=None, seed=0, runs=60, priorities=None):
        self.rng = Random(seed)
        self.rows = Rows()
        self.sets = [frozenset(each) for each in sets]
        self.rooms = dict(zip(self.sets, rooms or [1000] * len(sets), strict=True))
        self.gone = set()
        self.number = number
        self.now = 0
        self.seq = 0
        self.order = []  # who started, one after the other
        self.held = []  # of each slot in use, the workflow that has it
        self.changes = None
        for workflow in sorted(set().union(*self.sets)):
            self.queue(workflow, runs, (priorities or {}).get(workflow, 3))
        for served in self.sets:  # the first one finds room, the others come to wait
            self.turn(served)

    def queue(self, workflow, runs, priority=3):
        lane = Lane(workflow.encode(), b"unit-" + workflow.encode(), workflow, priority, (GATE,))
        for _ in range(runs):
            self.seq += 1
            told = self.rows.put(lane, Head(self.seq, (self.number,)))
        self.turn(frozenset({"nobody's"}), 0, tell=[lambda floor: floor.arrive([told])])

    def turn(self, served, wanted=None, tell=()):
        crew = [(each, self.free(each)) for each in self.sets if each not in self.gone]
        wanted = self.free(served) if wanted is None else wanted
        starts, self.changes, self.loader = take_turn(
            self.rows, self.now, wanted, lambda floor: [each(floor) for each in tell], served, crew=crew
        )
        audit(self.rows, self.now)
        names = [start.lane_id.decode() for start in starts]
        self.order += names
        self.held += names if isinstance(self.number, int) else []
        return names

    def free(self, served):
        return self.rooms.get(served, 1000) - sum(workflow in served for workflow in self.held)

    def end(self, workflow):
        """A run ends, and its worker looks for another in the same turn."""
        self.held.remove(workflow)
        served = next(each for each in self.sets if workflow in each)
        return self.turn(served, tell=[lambda floor: floor.give_back(GATE)])

    def execute(self, time):
        """The run at a gate of one place executes for that long, and ends: which it was, and who starts."""
        self.now += time
        (workflow,) = self.held
        return workflow, self.end(workflow)

    def everybody_looks(self):
        for served in self.rng.sample(self.sets, len(self.sets)):
            if served not in self.gone:
                self.turn(served)

    def wake(self):
        """Time passes until the gate's alarm; answers how long that was."""
        alarm = self.rows.gates[GATE].wake_at
        assert alarm is not None and alarm > self.now
        waited, self.now = alarm - self.now, alarm
        return waited


def ends_at_random(scene, events):
    for _ in range(events):
        scene.end(scene.rng.choice(scene.held))
        scene.everybody_looks()


def test_two_workers_behind_a_limit_of_one_take_it_in_turn():
    scene = Scene("a", "b")
    ends_at_random(scene, 40)
    assert "".join(scene.order[1:]) in IN_TURN


@pytest.mark.parametrize("seed", range(12))
def test_sets_of_workers_share_a_limit_evenly_whatever_ends_when(seed):
    number, sets = 1 + seed % 6, [("a", "b"), ("a", "bc", "d"), ("ab", "cd", "e", "f")][seed % 3]
    scene = Scene(*sets, number=number, seed=seed, runs=100)
    scene.order.clear()
    for _ in range(25):
        ends_at_random(scene, 5)
        starts = [sum(name in each for name in scene.order) for each in scene.sets]
        assert max(starts) - min(starts) <= number + 1, starts


def test_many_places_that_come_free_at_once_are_shared_not_swept():
    scene = Scene("a", "b", number=10)
    scene.order.clear()
    tell = [lambda floor: floor.give_back(GATE, 10)]
    scene.held.clear()
    scene.turn(scene.sets[0], tell=tell)
    assert scene.changes.rung == {"b"}
    scene.everybody_looks()
    assert Counter(scene.order) == {"a": 5, "b": 5}


def test_a_worker_that_does_not_come_is_waited_for_once_and_then_ever_more_seldom():
    scene = Scene("a", "b", runs=20)
    idle, pauses = 0, []
    for _ in range(500):
        if not scene.execute(A_RUN)[1]:
            pauses.append(scene.wake())
            assert scene.turn(scene.sets[0]) == ["a"]
        scene.queue("a", 1)
    idle = sum(pauses)
    assert pauses[0] == WINDOW
    assert max(pauses) <= 4 * WINDOW
    assert idle < scene.now * 0.03
    assert set(scene.order) == {"a"}


def test_a_worker_that_takes_a_while_to_come_is_waited_for_as_long_as_it_takes():
    scene = Scene("a", "b")
    quick, slow = scene.sets
    for _ in range(80):
        holder, started = scene.execute(A_RUN)
        if started:
            continue
        if holder == "b":
            assert scene.turn(quick) == ["a"]
            continue
        comes = scene.now + WINDOW * 3 // 2
        while scene.now < comes and not scene.held:
            scene.now = min(scene.rows.gates[GATE].wake_at, comes)
            scene.turn(quick if scene.now < comes else slow)
    assert "".join(scene.order[-40:]) in IN_TURN


def test_one_commit_that_takes_long_costs_nobody_his_turns():
    scene = Scene("a", "b")
    quick, slow = scene.sets
    for number in range(41):
        holder, _ = scene.execute(A_RUN)
        if number == 10:
            scene.now += 5 * WINDOW  # the file was locked all the while
        for served in (slow, quick) if holder == "a" else (quick, slow):
            scene.turn(served)
    assert "".join(scene.order[1:41]) in IN_TURN


def test_a_worker_that_comes_again_after_it_was_away_gets_its_turns_again():
    scene = Scene("a", "b", runs=150)
    for _ in range(100):
        if not scene.end("a"):
            scene.wake()
            scene.turn(scene.sets[0])
    assert "b" not in scene.order
    scene.now += 60 * A_SECOND
    scene.order.clear()
    ends_at_random(scene, 20)
    starts = Counter(scene.order)
    assert abs(starts["a"] - starts["b"]) <= 1


@pytest.mark.parametrize("why", ["dead", "full"])
def test_nothing_is_left_for_a_worker_that_could_not_take_it(why):
    scene = Scene("a", "b", rooms=[1000, 0 if why == "full" else 1000])
    if why == "dead":
        scene.gone.add(scene.sets[1])
    for _ in range(20):
        assert scene.end("a") == ["a"]


def test_what_others_have_no_room_for_is_taken_at_once():
    scene = Scene("a", "b", number=10, rooms=[1000, 2])
    scene.held.clear()
    assert len(scene.turn(scene.sets[0], tell=[lambda floor: floor.give_back(GATE, 10)])) == 8
    assert scene.turn(scene.sets[1]) == ["b", "b"]


def test_workers_of_the_same_workflows_never_wait_for_each_other():
    scene = Scene("a", "a")
    for _ in range(20):
        assert scene.end("a") == ["a"]
    assert scene.rows.gates[GATE].rota is None
    assert not scene.loader.calls["others"]


def test_a_gate_forgets_its_turns_when_nobody_else_waits_there():
    scene = Scene("a", "b")
    scene.end("a")
    assert scene.rows.gates[GATE].rota is not None
    for seq in sorted(scene.rows.queues.pop((b"b", False))):
        scene.turn(scene.sets[0], 0, tell=[lambda floor, seq=seq: floor.removed(b"b", seq)])
    scene.end("a")
    assert scene.rows.gates[GATE].rota is None


def test_a_waiter_that_is_cancelled_while_a_place_is_left_for_it_gives_it_back_at_once():
    scene = Scene("a", "b", runs=5)
    scene.end("a")
    assert scene.held == ["a"]
    assert scene.end("a") == []
    queue = scene.rows.queues.pop((b"b", False))
    scene.turn(scene.sets[1], tell=[lambda floor: floor.removed(b"b", min(queue))])
    assert scene.changes.rung == {"a"}
    assert scene.turn(scene.sets[0]) == ["a"]


def test_a_better_priority_goes_first_and_a_lower_one_is_waited_for_by_nobody():
    scene = Scene("a", "b", priorities={"a": 1, "b": 5}, runs=30)
    for _ in range(29):
        assert scene.end("a") == ["a"]
    scene.end("a")
    scene.turn(scene.sets[1])
    scene.end("b")
    scene.queue("a", 5, 1)
    scene.order.clear()
    ends_at_random(scene, 5)
    assert scene.order[-4:] == ["a"] * 4


@pytest.mark.parametrize("burst", [1, 3])
def test_tokens_of_a_rate_are_taken_in_turn(burst):
    scene = Scene("a", "b", number=(5, 1, burst))
    scene.order.clear()
    for _ in range(40):
        scene.wake()
        for served in [*scene.sets, scene.sets[0]]:  # always the same one first
            scene.turn(served)
    starts = Counter(scene.order)
    assert abs(starts["a"] - starts["b"]) <= burst + 1


def test_a_token_is_not_left_for_a_worker_that_is_away():
    scene = Scene("a", "b", number=(5, 1, 1), runs=320)
    while scene.now < 60 * A_SECOND:
        scene.wake()
        scene.turn(scene.sets[0])
    assert len(scene.order) > 290


@pytest.mark.parametrize("number", [1, 2, (5, 1, 1)])
@pytest.mark.parametrize("best", [3, 1])
def test_those_who_leave_a_place_to_a_third_do_not_call_each_other_meanwhile(number, best):
    scene = Scene("a", "b", "c", number=number, priorities={"c": best})
    for _ in range(30):
        if isinstance(number, int):
            scene.held.clear()
            starts = [lambda floor: floor.give_back(GATE, scene.rows.gates[GATE].in_use)]
        else:
            starts = []
            scene.now += A_SECOND
        told, turns = [frozenset("a")], 0  # c's worker seems to be well, and does not come
        while told:
            served = told.pop(0)
            scene.turn(served, tell=starts)
            starts = []
            told += [frozenset(name) for name in sorted(scene.changes.rung) if name in "ab"]
            turns += 1
            assert turns < 10, f"{turns} turns at one instant"
        if not scene.held and isinstance(number, int):
            scene.wake()
            scene.turn(frozenset("b"))


def test_one_that_stays_away_costs_none_of_the_others_its_turns():
    scene = Scene("a", "b", "c", runs=200)
    present = scene.sets[:2]
    scene.order.clear()
    for _ in range(100):
        holder, _ = scene.execute(50_000)
        while not scene.held:
            for served in sorted(present, key=lambda each: holder not in each):  # who is ahead looks first
                scene.turn(served)
            if not scene.held:
                scene.wake()
    starts = Counter(scene.order)
    assert abs(starts["a"] - starts["b"]) <= 2, starts


def test_whom_another_worker_turned_away_is_asked_before_one_of_a_lower_priority():
    scene = Scene({"A"}, {"A", "B", "C"}, priorities={"B": 5})
    assert scene.held == ["A"]
    while scene.end("A"):  # until it leaves the place to those who serve C
        pass
    gate = scene.rows.gates[GATE]
    assert gate.rota.until > scene.now
    assert (scene.rows.lanes[b"A"].state, scene.rows.lanes[b"B"].state) == ("waiting", "ready")
    assert scene.turn(frozenset({"A", "B"}), 1) == ["A"]


def test_who_is_called_for_a_better_priority_leaves_nothing_to_those_of_a_lower_one():
    scene = Scene("A", "AB", "BC", priorities={"C": 1})
    starts = {"A": 1, "AB": 0, "BC": 1}  # the worker of A and B is behind the others, and has no C
    shares = {repr(sorted(name)).encode(): Share(starts=n) for name, n in starts.items()}
    scene.rows.gates[GATE].rota = Rota(shares=shares)
    scene.end("A")
    assert not scene.held
    assert "C" in scene.changes.rung
    assert scene.turn(frozenset("BC"), 1) == ["C"]
