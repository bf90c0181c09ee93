"""Configuration: what is refused, with which words, and what changes while a worker runs."""

import json
from datetime import timedelta

import pytest

from pyrula.clock import SECOND
from pyrula.errors import ConfigurationError
from pyrula.limiters import LimiterConfig, PollRate, cluster, node
from pyrula.limiters.stats import Figure
from pyrula.limiters.wire import changes_from_json, changes_to_json, config_from_json, config_to_json
from tests.limiters.support import FakeMachine, asked, made_hub


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ([], "mapping"),
        ({"planet": {}}, "levels os, node, cluster, worker"),
        ({"node": {"workflows": (1, 1)}}, "activity_regular"),
        ({"worker": {"nexus": (1, 1)}}, "only what it serves"),
        ({"node": {"workflow": 5}}, "pair"),
        ({"node": {"workflow": (5,)}}, "pair"),
        ({"node": {"workflow": (-1, None)}}, "whole numbers"),
        ({"node": {"workflow": (True, None)}}, "whole numbers"),
        ({"node": {"workflow": (1.5, None)}}, "whole numbers"),
        ({"node": {"workflow": (float("inf"), None)}}, "whole numbers"),
        ({"os": {"memory": 5}}, "mem, cpu1"),
        ({"os": {"mem": 0.8}}, "80 is 80 percent"),  # field report 176
        ({"os": {"mem": 101}}, "percent"),
        ({"os": {"mem": float("nan")}}, "percent"),
        ({"os": {"cpu1": 0}}, "256 is one busy core"),
        ({"os": {"cpu1": True}}, "256"),
        ({"os": {("disk",): 5}}, "disk"),
        ({"os": {("disk", "/"): 0}}, "percent"),
        ({"os": {("disk", "/nowhere/at/all"): 5}}, "mounted are /"),
    ],
)
def test_what_can_not_be_kept_is_refused_by_name(limits, words):
    hub, _ = made_hub()
    with pytest.raises(ConfigurationError, match=words):
        hub.worker("w", limits=limits)
    assert len(hub._limiters) == 0


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (
            {"node": {"workflow": (4, 9)}, "cluster": {"workflow": (5, 9)}},
            "node workflow 4 < cluster workflow 5",
        ),
        (
            {"cluster": {"workflow": (5, 8)}, "worker": {"workflow": (5, 9)}},
            "cluster workflow 8 < worker workflow 9",
        ),
        (
            {"node": {"workflow": (5, 9)}, "worker": {"workflow": (6, 9)}},
            "node workflow 5 < worker workflow 6",
        ),
    ],
)
def test_a_wider_level_below_a_narrower_one_is_refused_and_the_pair_is_named(limits, words):
    hub, _ = made_hub()
    with pytest.raises(ConfigurationError, match=words):
        hub.worker("w", limits=limits)


def test_equal_levels_and_levels_without_a_limit_are_fine():
    hub, _ = made_hub()
    pair = {"workflow": (5, None)}
    limiter = hub.worker("w", limits={"node": pair, "cluster": {"workflow": (None, 7)}, "worker": pair})
    assert limiter.room("workflow").n == 5


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "1", True, timedelta(0)])
def test_durations_are_positive_and_finite(value):
    hub, _ = made_hub()
    for arguments in ({"limiter_check_frequency": value}, {"limiter_time_windows": {"workflow": value}}):
        with pytest.raises(ConfigurationError):
            hub.worker("w", **arguments)
    with pytest.raises(ConfigurationError):
        hub.node.configure(limiter_time_windows={"workflow": value})


@pytest.mark.parametrize("size", [0, -1, 1.5, True, None])
def test_a_pool_has_one_poller_or_more(size):
    hub, _ = made_hub()
    with pytest.raises(ConfigurationError, match="task_poller_pool_size"):
        hub.worker("w", task_poller_pool_size=size)


@pytest.mark.parametrize("name", ["", 3, None, b"w"])
def test_a_worker_and_a_cluster_have_a_name(name):
    hub, _ = made_hub()
    with pytest.raises(ConfigurationError, match=r"worker_id: .* expected a name"):
        hub.worker(name)
    with pytest.raises(ConfigurationError, match=r"cluster: .* expected a name"):
        hub.worker("w", name)
    with pytest.raises(ConfigurationError, match=r"cluster: .* expected a name"):
        hub.cluster(name)


def test_a_listener_is_a_function():
    hub, _ = made_hub()
    with pytest.raises(
        ConfigurationError, match="listen: 'print' is refused; expected a function of an event"
    ):
        hub.listen("print")


@pytest.mark.parametrize(
    "call",
    [
        lambda it, kind: it.room(kind),
        lambda it, kind: it.reserve(kind),
        lambda it, kind: it.polled(kind, 1, 0),
        lambda it, kind: it.begin(kind),
        lambda it, kind: it.end(kind),
    ],
)
@pytest.mark.parametrize("kind", ["workflows", "", None])
def test_a_kind_that_is_none_is_refused_by_name(call, kind):
    hub, _ = made_hub()
    limiter = hub.worker("w", task_poller_limiter=PollRate(1, 1))
    with pytest.raises(ConfigurationError, match=r"kind: .* expected one of workflow, activity_regular"):
        call(limiter, kind)
    assert limiter.reserve("workflow") == 1


@pytest.mark.parametrize("n", [-1, 1.5, True, None, "1"])
def test_places_are_whole_numbers(n):
    hub, _ = made_hub()
    limiter = hub.worker("w")
    with pytest.raises(ConfigurationError, match=r"n: .* a whole number, 0 or more"):
        limiter.reserve("workflow", n)
    with pytest.raises(ConfigurationError, match=r"got: .* at most 2"):
        limiter.polled("workflow", 2, n)
    assert limiter.stats().reserved["workflow"] == 0


def test_no_poll_brings_more_than_it_asked_for():
    hub, _ = made_hub()
    limiter = hub.worker("w")
    assert limiter.reserve("workflow", 2) == 2
    with pytest.raises(
        ConfigurationError, match="got: 3 is refused; expected a whole number, 0 or more, at most 2"
    ):
        limiter.polled("workflow", 2, 3)
    assert limiter.stats().reserved["workflow"] == 2


def test_durations_are_seconds_or_timedeltas():
    hub, clock = made_hub()
    limiter = hub.worker(
        "w",
        limits={"worker": {"workflow": (None, 1)}},
        limiter_time_windows={"workflow": timedelta(minutes=10)},
        task_poller_limiter=PollRate(limit=10, time_window=timedelta(minutes=1)),
    )
    limiter.begin("workflow")
    clock.to(1)
    assert limiter.room("workflow").retry_at == 600 * SECOND
    assert limiter.get_config().task_poller_limiter.interval == 6 * SECOND


def test_the_configuration_reads_back_as_it_was_given():
    hub, _ = made_hub()
    limits = {
        "os": {"mem": 90, ("disk", "/"): 80},
        "node": {"workflow": (9, None)},
        "worker": {"workflow": (5, 50)},
    }
    rate = PollRate(10, 60)
    limiter = hub.worker("w", limits=limits, task_poller_limiter=rate, limiter_check_frequency=0.1)
    assert limiter.get_config() == LimiterConfig(limits, rate, 0.1)


def test_each_part_is_changed_alone_and_the_rest_stays():
    hub, _ = made_hub()
    limiter = hub.worker("w", limits={"worker": {"workflow": (5, 50)}}, task_poller_limiter=PollRate(10, 60))
    limiter.set_config(limiter_check_frequency=2)
    limiter.set_config(task_poller_limiter=PollRate(20, 60))
    assert limiter.get_config() == LimiterConfig({"worker": {"workflow": (5, 50)}}, PollRate(20, 60), 2.0)
    limiter.set_config(limits={})
    assert limiter.get_config() == LimiterConfig({}, PollRate(20, 60), 2.0)


def test_a_change_that_is_refused_changes_nothing():
    hub, _ = made_hub()
    limiter = hub.worker("w", limits={"worker": {"workflow": (5, 50)}})
    before = limiter.get_config()
    for change in (
        {"limits": {"worker": {"nexus": (1, 1)}}},
        {"limits": {}, "task_poller_limiter": 5},
        {"limits": {}, "limiter_check_frequency": 0},
        {"limits": {"os": {("disk", "/nowhere/at/all"): 5}}},
    ):
        with pytest.raises(ConfigurationError):
            limiter.set_config(**change)
    assert limiter.get_config() == before


def test_a_lowered_limit_leaves_what_executes_and_holds_what_is_new():
    hub, _ = made_hub()
    limiter = hub.worker("w", limits={"worker": {"workflow": (8, None)}})
    limiter.begin("workflow", 8)
    limiter.set_config(limits={"worker": {"workflow": (2, None)}})
    assert limiter.stats().concurrency["workflow"] == 8
    for still in range(8, 2, -1):
        limiter.end("workflow")
        assert limiter.reserve("workflow", 9) == 0, still
    limiter.end("workflow")
    assert limiter.reserve("workflow", 9) == 1


def test_a_change_serves_those_who_wait():
    hub, _ = made_hub()
    limiter = hub.worker("w", limits={"worker": {"workflow": (1, None)}})
    limiter.begin("workflow")
    told = []
    asked(limiter, "workflow", told.append)
    limiter.set_config(limits={"worker": {"workflow": (2, None)}})
    assert told == [True]
    asked(limiter, "workflow", told.append)
    limiter.set_config(limiter_check_frequency=0.1)
    assert told == [True, False]  # not yet, but the time to look may have moved


def test_windows_are_set_at_each_level():
    hub, clock = made_hub()
    hub.node.configure(limiter_time_windows={"workflow": 100})
    hub.cluster("c").configure(limiter_time_windows={"workflow": 50})
    limiter = hub.worker("w", "c", limiter_time_windows={"workflow": 10})
    limiter.begin("workflow")
    counts = []
    for now in (9, 10, 49, 50, 99, 100):
        clock.to(now)
        counts.append([x.stats().frequency["workflow"] for x in (limiter, hub.cluster("c"), hub.node)])
    assert counts == [[1, 1, 1], [0, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0]]
    assert hub.node.stats().time_windows["nexus"] == 60


def test_the_process_has_a_node_and_clusters_of_its_own():
    cluster("orders").configure(limiter_time_windows={"workflow": 600})
    assert cluster("orders").stats().time_windows["workflow"] == 600
    assert node.stats().level == "node"


def test_intervals_of_samples_are_settable_and_checked():
    hub, clock = made_hub(machine=(machine := FakeMachine()))
    with pytest.raises(ConfigurationError, match="cpu15"):
        hub.node.configure(os_check_intervals={"memory": 1})
    hub.node.configure(os_check_intervals={"mem": 1})
    limiter = hub.worker("w", limits={"os": {"mem": 90}})
    for now in (0.5, 1.0, 1.5, 2.0):
        clock.to(now)
        limiter.room("workflow")
    assert machine.asked["mem"] == 3


def test_the_configuration_survives_json():
    hub, _ = made_hub()
    limits = {"os": {"mem": 90, ("disk", "/"): 80}, "worker": {"workflow": (5, None)}}
    a = hub.worker("a", limits=limits, task_poller_limiter=PollRate(10, timedelta(minutes=1)))
    b = hub.worker("b")
    b.set_config(**changes_from_json(json.loads(json.dumps(config_to_json(a.get_config())))))
    assert b.get_config().limits == limits
    assert b.get_config().task_poller_limiter == PollRate(10, 60)
    assert changes_from_json({"task_poller_limiter": None}) == {"task_poller_limiter": None}


@pytest.mark.parametrize(
    "wire", [{"limit": {}}, {"task_poller_limiter": 5}, {"task_poller_limiter": {"limit": 5}}]
)
def test_json_of_another_shape_is_refused(wire):
    with pytest.raises(ConfigurationError):
        changes_from_json(wire)


def test_what_is_set_from_elsewhere_is_checked_and_reads_back():
    given = {"limits": {"os": {("disk", "/"): 80}, "worker": {"workflow": (5, None)}}}
    wire = json.loads(json.dumps(changes_to_json({**given, "task_poller_limiter": PollRate(10, 60)})))
    assert wire == {
        "limits": {"os": {"disk:/": 80}, "worker": {"workflow": [5, None]}},
        "task_poller_limiter": {"limit": 10, "time_window": 60.0},
    }
    assert config_from_json(wire) == LimiterConfig(given["limits"], PollRate(10, 60.0))
    assert changes_to_json({"task_poller_limiter": None}) == {"task_poller_limiter": None}
    assert changes_to_json({}) == {}
    for wrong in (
        {"limits": {"worker": {"nexus": (1, None)}}},
        {"task_poller_limiter": 5},
        {"limiter_check_frequency": 0},
    ):
        with pytest.raises(ConfigurationError):
            changes_to_json(wrong)


def test_figures_have_each_limit_and_what_it_is_held_against():
    hub, clock = made_hub(at=7)
    limits = {"os": {"mem": 90}, "worker": {"workflow": (5, 50)}, "node": {"workflow": (None, 60)}}
    limiter = hub.worker("w", limits=limits, limiter_time_windows={"workflow": 10})
    hub.worker("v").begin("workflow", 3)
    limiter.begin("workflow", 2)
    limiter.end("workflow")
    assert limiter.figures() == (
        Figure("os", "mem", 10.0, 90),
        Figure("worker", "workflow", 1, 5, 2, 50, 17_000_000),
        Figure("node", "workflow", 4, None, 5, 60, 67_000_000),
    )
    clock.to(20)
    assert limiter.figures()[1] == Figure("worker", "workflow", 1, 5, 0, 50, 27_000_000)
