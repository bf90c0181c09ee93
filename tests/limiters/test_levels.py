"""Levels: sums, places held, what holds whom, and the order of those who wait."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula.clock import SECOND
from pyrula.limiters import PollRate
from tests.limiters.support import asked, made_hub


def test_the_node_is_the_sum_of_its_clusters_and_a_cluster_of_its_workers():
    hub, _ = made_hub()
    a, b, c = hub.worker("a", "one"), hub.worker("b", "one"), hub.worker("c", "two")
    a.begin("workflow", 1)
    b.begin("workflow", 2)
    c.begin("workflow", 4)
    b.end("workflow", 1)
    assert [x.stats().concurrency["workflow"] for x in (a, b, c)] == [1, 1, 4]
    assert [hub.cluster(name).stats().concurrency["workflow"] for name in ("one", "two")] == [2, 4]
    assert hub.node.stats().concurrency["workflow"] == 6
    assert [hub.cluster(name).stats().frequency["workflow"] for name in ("one", "two")] == [3, 4]
    assert hub.node.stats().frequency["workflow"] == 7


def test_places_held_by_one_worker_are_not_promised_to_another():
    hub, _ = made_hub()
    limits = {"node": {"workflow": (10, None)}}
    a, b = hub.worker("a", limits=limits), hub.worker("b", limits=limits)
    assert a.reserve("workflow", 7) == 7
    assert b.reserve("workflow", 7) == 3
    a.polled("workflow", asked=7, got=2)
    assert b.reserve("workflow", 7) == 5


def test_many_threads_never_take_more_than_the_limit_together():
    hub, _ = made_hub()
    limits = {"node": {"workflow": (10, None)}}
    workers = [hub.worker(f"w{i}", f"c{i % 2}", limits=limits) for i in range(4)]
    running, peak, guard = 0, 0, threading.Lock()

    def work(limiter):
        nonlocal running, peak
        for _ in range(300):
            n = limiter.reserve("workflow", 4)
            with guard:
                running += n
                peak = max(peak, running)
            limiter.begin("workflow", n)
            with guard:
                running -= n
            limiter.end("workflow", n)

    threads = [threading.Thread(target=work, args=(w,)) for w in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= peak <= 10
    stats = hub.node.stats()
    assert (stats.concurrency["workflow"], stats.reserved["workflow"]) == (0, 0)


def test_a_worker_is_held_by_any_limitable_it_lists_its_own_kind_or_not():
    hub, _ = made_hub()
    workflows = hub.worker("w", "c", kinds=("workflow",), limits={"node": {"nexus": (1, None)}})
    nexus = hub.worker("n", "c", kinds=("nexus",))
    assert workflows.room("workflow").n is None
    nexus.begin("nexus")
    room = workflows.room("workflow")
    assert (room.n, [str(one) for one in room.limited_by]) == (0, ["node nexus: concurrency 1 of 1"])
    nexus.end("nexus")
    assert workflows.room("workflow").n is None


def test_a_workflow_limit_does_not_hold_back_what_runs_inside_the_workflows_of_the_same_worker():
    hub, _ = made_hub()
    limits = {"node": {"workflow": (1, None)}}
    both = hub.worker("w", kinds=("workflow", "activity_regular"), limits=limits)
    activities = hub.worker("a", kinds=("activity_regular",), limits=limits)
    both.begin("workflow")
    assert both.room("workflow").n == 0
    assert both.room("activity_regular").n is None
    assert activities.room("activity_regular").n == 0  # it serves no workflows: it was told so on purpose


def test_zero_lets_nothing_start():
    hub, _ = made_hub()
    limiter = hub.worker("w", limits={"worker": {"workflow": (0, None)}})
    assert limiter.reserve("workflow", 5) == 0


def test_a_worker_limit_is_its_own_and_a_cluster_limit_is_shared():  # field report 172
    hub, _ = made_hub()
    own = {"worker": {"workflow": (1, None)}}
    shared = {"cluster": {"workflow": (1, None)}}
    a, b = hub.worker("a", "x", limits=own), hub.worker("b", "x", limits=own)
    assert (a.reserve("workflow", 2), b.reserve("workflow", 2)) == (1, 1)
    c, d = hub.worker("c", "y", limits=shared), hub.worker("d", "y", limits=shared)
    assert (c.reserve("workflow", 2), d.reserve("workflow", 2)) == (1, 0)


def test_when_to_look_again_is_exact_for_windows_and_the_check_frequency_for_concurrency():
    hub, clock = made_hub()
    limits = {"worker": {"workflow": (1, 1)}}
    limiter = hub.worker("w", limits=limits, limiter_check_frequency=0.25)
    limiter.begin("workflow")
    clock.to(1)
    assert limiter.room("workflow").retry_at == 60 * SECOND
    limiter.set_config(limits={"worker": {"workflow": (1, None)}})
    assert limiter.room("workflow").retry_at == 1.25 * SECOND


def test_the_own_places_count_by_default_for_polls_and_with_strict_everybodys():
    hub, _ = made_hub()
    limits = {"node": {"workflow": (4, None)}}
    lax = [hub.worker(f"l{i}", limits=limits, strict=False) for i in range(3)]
    assert [one.reserve("workflow", 4) for one in lax] == [4, 4, 4]
    for one in lax:
        one.release("workflow", 4)
    strict = [hub.worker(f"s{i}", limits=limits, strict=True) for i in range(3)]
    assert [one.reserve("workflow", 4) for one in strict] == [4, 0, 0]


def test_a_place_given_back_goes_to_who_waited_longest_and_not_to_who_gave_it():
    hub, _ = made_hub()
    limits = {"node": {"nexus": (1, None)}}
    a, b = (hub.worker(name, kinds=("nexus",), limits=limits) for name in "ab")
    told = []
    assert asked(a, "nexus", told.append).granted
    waiting = asked(b, "nexus", lambda granted: told.append(("b", granted)))
    assert not waiting.granted
    a.release("nexus")
    again = asked(a, "nexus", told.append)
    assert waiting.granted and not again.granted
    assert told == [("b", True)]
    assert a.withdraw(again)
    assert not b.withdraw(waiting)


def test_who_waits_is_told_when_the_time_to_look_comes_sooner():
    hub, clock = made_hub()
    told, free = [], [False]
    limiter = hub.worker("w", kinds=("nexus",), task_poller_limiter=PollRate(10, 1))
    limiter.reserve("nexus")
    ask = asked(limiter, "nexus", told.append, allow=lambda: free[0])
    assert ask.look_at == 0.5 * SECOND
    free[0] = True
    clock.to(0.01)
    limiter.begin("nexus")
    assert (told, ask.look_at) == ([False], 0.1 * SECOND)


def test_closing_a_worker_gives_back_what_it_counted():
    hub, _ = made_hub()
    limiter = hub.worker("w", "c")
    limiter.begin("workflow", 3)
    limiter.reserve("workflow", 2)
    limiter.close()
    limiter.end("workflow")
    for stats in (hub.node.stats(), hub.cluster("c").stats()):
        assert (stats.concurrency["workflow"], stats.reserved["workflow"]) == (0, 0)


@pytest.mark.parametrize("began", [True, False])
def test_an_arrival_counts_against_the_window_until_it_is_settled(began):
    hub, _ = made_hub()
    limiter = hub.worker("w", limits={"worker": {"workflow": (None, 1)}})
    limiter.reserve("workflow")
    limiter.arrive("workflow")
    assert limiter.room("workflow").n == 0
    limiter.settle("workflow", lives=True, began=began)
    assert limiter.room("workflow").n == (0 if began else 1)
    assert limiter.stats().concurrency["workflow"] == 1


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["reserve", "begin", "release", "end"])), max_size=80
    )
)
def test_whatever_workers_do_no_level_is_ever_over_its_limit(moves):
    hub, _ = made_hub()
    limits = {
        "node": {"workflow": (5, None)},
        "cluster": {"workflow": (4, None)},
        "worker": {"workflow": (3, None)},
    }
    workers = [hub.worker(f"w{i}", f"c{i % 2}", limits=limits) for i in range(3)]
    held, running = [0, 0, 0], [0, 0, 0]
    for who, what in moves:
        if what == "reserve":
            held[who] += workers[who].reserve("workflow", 2)
        elif what == "begin" and held[who]:
            workers[who].begin("workflow")
            held[who] -= 1
            running[who] += 1
        elif what == "release" and held[who]:
            workers[who].release("workflow")
            held[who] -= 1
        elif what == "end" and running[who]:
            workers[who].end("workflow")
            running[who] -= 1
        taken = [held[i] + running[i] for i in range(3)]
        assert max(taken) <= 3
        assert taken[0] + taken[2] <= 4
        assert sum(taken) <= 5
    assert hub.node.stats().concurrency["workflow"] == sum(running)


def test_a_grant_is_told_though_what_is_looked_at_after_it_fails():
    hub, _ = made_hub()
    a = hub.worker("a", limits={"worker": {"workflow": (1, None)}})
    told, broken = [], []

    def allow():
        if broken:
            raise RuntimeError("broken on purpose")
        return False

    a.reserve("workflow")
    first = asked(a, "workflow", told.append)
    asked(a, "workflow", told.append, allow=allow)
    broken.append(True)
    with pytest.raises(RuntimeError, match="on purpose"):
        a.release("workflow")
    assert first.granted
    assert told == [True]
    broken.clear()
    assert a.stats().reserved["workflow"] == 1
