"""The second seed, sentence by sentence and example by example; worker_rate_limiters.md has the table.

What needs a real Temporal server is in tests/temporal, its examples in test_seed.py.
"""

from datetime import timedelta

import psutil
import pytest

from pyrula.clock import SECOND
from pyrula.errors import ConfigurationError
from pyrula.limiters import LIMITABLES, Hub, PollRate, TaskCounter
from pyrula.limiters.os import OsReadings
from tests.limiters.support import FakeMachine, made_hub, run_through

# -- the limiters, alone and together


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"limits": {"os": {"mem": 90}}}, ("os", "os")),
        ({"limits": {"worker": {"workflow": (2, None)}}}, ("worker", "concurrency")),
        ({"limits": {"worker": {"workflow": (None, 2)}}}, ("worker", "frequency")),
        ({"task_poller_limiter": PollRate(2, 60), "task_poller_pool_size": 2}, ("poller", "poll")),
    ],
)
def test_each_limiter_works_alone(options, why):
    hub, _ = made_hub(machine=FakeMachine(mem=95 if why == ("os", "os") else 10))
    limiter = hub.worker("w", kinds=("workflow",), **options)
    for _ in range(2):
        if limiter.reserve("workflow"):
            limiter.begin("workflow")
    assert [(one.level, one.measure) for one in limiter.room("workflow").limited_by] == [why]


def test_limiters_work_in_combination():
    hub, clock = made_hub(machine=(machine := FakeMachine(mem=10)))
    limiter = hub.worker(
        "w",
        kinds=("workflow",),
        limits={"os": {"mem": 90}, "worker": {"workflow": (2, 3)}},
        task_poller_pool_size=4,
        task_poller_limiter=PollRate(1, 1),
    )
    assert limiter.reserve("workflow", 9) == 2  # concurrency is the tightest
    limiter.begin("workflow", 2)
    limiter.end("workflow", 2)
    assert limiter.reserve("workflow", 9) == 1  # then the window
    limiter.begin("workflow")
    limiter.end("workflow")
    clock.to(60)
    machine.mem = 95
    clock.to(65)
    assert limiter.reserve("workflow", 9) == 0  # then the machine
    machine.mem = 10
    clock.to(70)
    assert limiter.reserve("workflow", 9) == 2


def test_a_window_and_a_bucket_overlap_and_the_tighter_one_decides():
    hub, clock = made_hub()
    limiter = hub.worker(
        "w",
        kinds=("workflow",),
        limits={"worker": {"workflow": (None, 3)}},
        task_poller_limiter=PollRate(limit=6, time_window=60),
    )
    assert run_through(limiter, clock, "workflow", [0] * 6, until=200) == [0, 10, 20, 60, 70, 80]


# -- OS limiter

OS_EXAMPLE = {
    "os": {"mem": 90, "cpu1": 500, "cpu5": 500, "cpu15": 500, ("disk", "/"): 80, ("disk", "/tmp"): 90},
}


def test_the_example_of_os_limits_is_accepted_on_a_real_machine():
    hub = Hub()
    limiter = hub.worker("worker_1", "cluster_1", kinds=("workflow",), limits=OS_EXAMPLE)
    assert limiter.get_config().limits == OS_EXAMPLE
    stats = hub.node.os_stats()
    assert set(stats) == set(OS_EXAMPLE["os"])
    assert all(value >= 0 for value in stats.values())
    hub.close()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("mem", {"mem": 90}),
        ("cpu1", {"loads": (500 / 256, 0, 0)}),
        ("cpu5", {"loads": (0, 500 / 256, 0)}),
        ("cpu15", {"loads": (0, 0, 500 / 256)}),
        (("disk", "/"), {"disks": {"/": 80.0, "/tmp": 10.0}}),
        (("disk", "/tmp"), {"disks": {"/": 10.0, "/tmp": 90.0}}),
    ],
)
def test_each_line_of_the_example_of_os_limits_holds_the_worker(name, change):
    calm = {"mem": 10, "loads": (0, 0, 0), "disks": {"/": 10.0, "/tmp": 10.0}}
    hub, _ = made_hub(machine=FakeMachine(**calm))
    assert hub.worker("worker_1", limits=OS_EXAMPLE).room("workflow").n is None
    hub, _ = made_hub(machine=FakeMachine(**{**calm, **change}))
    limiter = hub.worker("worker_1", limits=OS_EXAMPLE)
    assert [one.limitable for one in limiter.room("workflow").limited_by] == [name]


def test_memory_is_allocated_by_total_in_percent_rounded(monkeypatch):
    host = type("Host", (), {"total": 1000, "percent": 37.6})
    monkeypatch.setattr(psutil, "virtual_memory", lambda: host)
    hub, _ = made_hub(machine=OsReadings())
    hub.worker("w", limits={"os": {"mem": 90}})
    assert hub.os_stats()["mem"] >= 38


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("mem", {"mem": OSError("gone")}),
        ("cpu1", {"loads": OSError("gone")}),
        ("cpu5", {"loads": OSError("gone")}),
        ("cpu15", {"loads": OSError("gone")}),
    ],
)
def test_what_is_not_available_is_minus_one(name, broken):
    hub, _ = made_hub(machine=FakeMachine(**broken))
    limiter = hub.worker("w", limits={"os": {name: 1}})
    assert hub.os_stats()[name] == -1
    assert limiter.room("workflow").n is None


@pytest.mark.parametrize(
    ("name", "seconds"), [("mem", 5), ("cpu1", 1), ("cpu5", 5), ("cpu15", 15), (("disk", "/"), 60)]
)
def test_each_reading_is_updated_at_its_interval(name, seconds):
    machine = FakeMachine()
    hub, clock = made_hub(machine=machine)
    hub.worker("w", limits={"os": {name: 100}})
    for half in range(8 * seconds + 1):
        clock.to(half / 2)
        hub.os_stats()
    assert sum(machine.asked.values()) == 1 + 4


def test_how_often_the_machine_is_asked_is_up_to_the_user():
    machine = FakeMachine()
    hub, clock = made_hub(machine=machine)
    hub.node.configure(os_check_intervals={"mem": timedelta(seconds=20), "disk": 2})
    hub.worker("w", limits={"os": {"mem": 90, ("disk", "/"): 90}})
    for now in range(41):
        clock.to(now)
        hub.os_stats()
    assert (machine.asked["mem"], machine.asked["/"]) == (3, 21)


# -- concurrency and fixed windows


def test_counters_go_up_when_an_execution_begins_and_concurrency_down_when_it_ends():
    hub, _ = made_hub()
    limiter = hub.worker("w")
    limiter.begin("workflow")
    stats = limiter.stats()
    assert (stats.concurrency["workflow"], stats.frequency["workflow"]) == (1, 1)
    limiter.end("workflow")
    stats = limiter.stats()
    assert (stats.concurrency["workflow"], stats.frequency["workflow"]) == (0, 1)


def test_frequency_is_reset_at_the_time_window():
    hub, clock = made_hub()
    limiter = hub.worker("w", limiter_time_windows={"workflow": 600})
    limiter.begin("workflow", 3)
    clock.to(599.999)
    assert limiter.stats().frequency["workflow"] == 3
    clock.to(600)
    assert limiter.stats().frequency["workflow"] == 0
    assert limiter.stats().concurrency["workflow"] == 3


def test_the_example_of_node_windows():
    hub, clock = made_hub()
    events = []
    hub.listen(events.append)
    hub.node.configure(
        limiter_time_windows={
            "activity_direct": timedelta(minutes=10),
            "activity_eager": timedelta(minutes=10),
            "activity_regular": timedelta(minutes=10),
            "activity_session": timedelta(minutes=10),
            "nexus": timedelta(minutes=10),
            "workflow": timedelta(minutes=10),
        }
    )
    assert set(hub.node.stats().time_windows.values()) == {600.0}
    workers = [hub.worker(f"w{i}", f"cluster_{i}", kinds=LIMITABLES) for i in range(2)]
    for kind in LIMITABLES:
        for worker in workers:
            worker.begin(kind)
    clock.to(600)
    hub.tick()
    told = [e for e in events if isinstance(e, TaskCounter) and e.level == "node"]
    assert {(e.limitable, e.frequency, e.time_window, e.at) for e in told} == {
        (kind, 2, 600.0, 600 * SECOND) for kind in LIMITABLES
    }


LIMITS_EXAMPLE = {
    "node": {"activity_regular": (200, 1_000), "nexus": (200, 1_000), "workflow": (200, 1_000)},
    "cluster": {
        "activity_direct": (10, 100),
        "activity_eager": (10, 100),
        "activity_regular": (10, 100),
        "activity_session": (10, 100),
        "nexus": (10, 100),
        "workflow": (10, 100),
    },
    "worker": {"workflow": (5, 50)},
}


def example(hub):
    """The workflow worker of the example, one of its cluster and one of another, to fill its levels with."""
    worker_1 = hub.worker(
        "worker_1", "cluster_1", kinds=("workflow",), task_poller_pool_size=1, limits=LIMITS_EXAMPLE
    )
    return (
        worker_1,
        hub.worker("c", "cluster_1", kinds=LIMITABLES),
        hub.worker("n", "other", kinds=LIMITABLES),
    )


@pytest.mark.parametrize("kind", ["activity_regular", "nexus", "workflow"])
@pytest.mark.parametrize(("most", "ends"), [(200, False), (1_000, True)])
def test_the_example_holds_at_node_level(kind, most, ends):
    hub, _ = made_hub()
    worker_1, _, other = example(hub)
    other.begin(kind, most - 1)
    if ends:
        other.end(kind, most - 1)
    assert worker_1.room("workflow").n != 0
    other.begin(kind)
    if ends:
        other.end(kind)
    why = worker_1.room("workflow").limited_by
    assert [(one.level, one.limitable, one.limit) for one in why] == [("node", kind, most)]


@pytest.mark.parametrize("kind", LIMITABLES)
@pytest.mark.parametrize(("most", "ends"), [(10, False), (100, True)])
def test_the_example_holds_at_cluster_level(kind, most, ends):
    hub, _ = made_hub()
    worker_1, same_cluster, other = example(hub)
    other.begin(kind, most)  # another cluster's do not count
    other.end(kind, most)
    same_cluster.begin(kind, most - 1)
    if ends:
        same_cluster.end(kind, most - 1)
    assert worker_1.room("workflow").n != 0
    same_cluster.begin(kind)
    if ends:
        same_cluster.end(kind)
    why = worker_1.room("workflow").limited_by
    assert [(one.level, one.limitable, one.limit) for one in why] == [("cluster", kind, most)]


@pytest.mark.parametrize(("most", "ends"), [(5, False), (50, True)])
def test_the_example_holds_at_worker_level(most, ends):
    hub, _ = made_hub()
    worker_1, same_cluster, _ = example(hub)
    same_cluster.begin("workflow", 5)
    same_cluster.end("workflow", 5)
    for _ in range(most):
        assert worker_1.reserve("workflow") == 1
        worker_1.begin("workflow")
        if ends:
            worker_1.end("workflow")
    why = worker_1.room("workflow").limited_by
    assert [(one.level, one.limitable, one.limit) for one in why] == [("worker", "workflow", most)]


def test_a_worker_lists_only_its_own_limitables_at_worker_level():
    hub, _ = made_hub()
    with pytest.raises(ConfigurationError, match="only what it serves"):
        hub.worker("worker_1", kinds=("workflow",), limits={"worker": {"activity_regular": (5, 50)}})


def test_concurrency_has_no_option_but_its_limits():
    hub, _ = made_hub()
    with pytest.raises(ConfigurationError, match="limiter_time_windows"):
        hub.node.configure(limiter_time_windows={"concurrency": 5})


# -- leaky bucket


def test_the_example_of_a_leaky_bucket():
    rate = PollRate(limit=10, time_window=timedelta(minutes=1))
    assert rate.interval == 6 * SECOND
    hub, clock = made_hub()
    limiter = hub.worker("worker_1", kinds=("workflow",), task_poller_pool_size=2, task_poller_limiter=rate)
    polls = run_through(limiter, clock, "workflow", [0] * 60, until=1000)
    assert sum(1 for at in polls if at < 60) == 20
    assert polls[:6] == [0, 0, 6, 6, 12, 12]


@pytest.mark.parametrize(("limit", "window"), [(10, 60), (1, 1), (3, 1), (999, 1), (1000, 1)])
def test_the_interval_is_the_window_by_the_limit(limit, window):
    assert PollRate(limit, window).interval == pytest.approx(window * SECOND / limit, abs=1)


def test_below_one_millisecond_there_is_no_rate_but_none_at_all():
    with pytest.raises(ConfigurationError, match="1 ms"):
        PollRate(1001, 1)
    hub, _ = made_hub()
    assert hub.worker("w").room("workflow").n is None


def test_nothing_is_saved_up_in_the_bucket():
    hub, clock = made_hub()
    limiter = hub.worker("w", kinds=("workflow",), task_poller_limiter=PollRate(1, 1))
    clock.to(3600)
    assert run_through(limiter, clock, "workflow", [3600] * 3, until=4000) == [3600, 3601, 3602]


# -- dynamic configuration


def test_limits_poll_rate_and_check_frequency_are_read_and_changed_while_the_worker_runs():
    hub, clock = made_hub()
    limiter = hub.worker("w", kinds=("workflow",), limits={"worker": {"workflow": (5, 50)}})
    limiter.begin("workflow", 5)
    assert limiter.room("workflow").retry_at == SECOND // 2
    limiter.set_config(limiter_check_frequency=0.1)
    assert limiter.room("workflow").retry_at == SECOND // 10
    limiter.set_config(limits={"worker": {"workflow": (6, 50)}})
    assert limiter.room("workflow").n == 1
    limiter.set_config(task_poller_limiter=PollRate(1, 10))
    limiter.reserve("workflow")
    limiter.release("workflow")
    assert limiter.room("workflow").retry_at == 10 * SECOND
    config = limiter.get_config()
    assert config.limits == {"worker": {"workflow": (6, 50)}}
    assert (config.task_poller_limiter, config.limiter_check_frequency) == (PollRate(1, 10), 0.1)
    assert clock.at == 0
