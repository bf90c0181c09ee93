"""Events: what metrics and logs are told, and that they harm nobody."""

from pyrula.clock import SECOND
from pyrula.limiters import PollRate, TaskCounter, WaitStarted, WaitStopped
from tests.limiters.support import made_hub


def heard(hub):
    events = []
    hub.listen(events.append)
    return events


def test_every_window_tells_its_count_when_it_ends_at_each_level():
    hub, clock = made_hub()
    events = heard(hub)
    limiter = hub.worker("w", "c", kinds=("workflow",), limiter_time_windows={"workflow": 10})
    limiter.begin("workflow", 3)
    clock.to(10)
    hub.tick()
    assert events == [TaskCounter("worker", "w", "workflow", 3, 3, 10.0, 10 * SECOND)]
    events.clear()
    clock.to(60)
    hub.tick()
    told = {(e.level, e.name, e.limitable): e.frequency for e in events}
    assert told["worker", "w", "workflow"] == 0
    assert told["cluster", "c", "workflow"] == told["node", "node", "workflow"] == 3
    assert told["node", "node", "nexus"] == 0


def test_a_held_poller_tells_when_it_starts_to_wait_and_what_held_it_how_long():
    hub, clock = made_hub()
    events = heard(hub)
    limits = {"cluster": {"workflow": (2, None)}, "worker": {"workflow": (1, None)}}
    limiter = hub.worker("w", "c", limits=limits)
    other = hub.worker("o", "c")
    limiter.begin("workflow")
    limiter.reserve("workflow")
    clock.to(2)
    other.begin("workflow")
    limiter.reserve("workflow")
    clock.to(3)
    limiter.end("workflow")
    clock.to(5)
    assert limiter.reserve("workflow") == 1
    assert events == [
        WaitStarted("w", "c", "workflow", 0.5, (("worker", "workflow"),), 0),
        WaitStopped(
            "w", "c", "workflow", {("worker", "workflow"): 5.0, ("cluster", "workflow"): 3.0}, 5 * SECOND
        ),
    ]


def test_the_delay_that_is_told_is_the_time_to_the_next_look():
    hub, _ = made_hub()
    events = heard(hub)
    limiter = hub.worker("w", task_poller_limiter=PollRate(10, 1), limiter_check_frequency=3)
    limiter.reserve("workflow")
    limiter.reserve("workflow")
    assert events[0].limiter_delay == 0.1
    assert events[0].limited_by == (("poller", "workflow"),)


def test_a_listener_that_raises_is_logged_and_harms_nobody(caplog):
    hub, _ = made_hub()

    def broken(event):
        raise RuntimeError("no")

    hub.listen(broken)
    events = heard(hub)
    limiter = hub.worker("w", limits={"worker": {"workflow": (0, None)}})
    assert limiter.reserve("workflow") == 0
    assert len(events) == 1
    assert "listener" in caplog.text


def test_a_listener_may_call_back_into_the_limiters():
    hub, _ = made_hub()
    limiter = hub.worker("w", limits={"worker": {"workflow": (0, None)}})
    seen = []
    hub.listen(lambda event: seen.append(limiter.stats().held))
    limiter.reserve("workflow")
    assert list(seen[0]) == ["workflow"]


def test_what_holds_a_worker_shows_in_its_stats():
    hub, clock = made_hub()
    limiter = hub.worker("w", limits={"worker": {"workflow": (1, 1)}})
    limiter.begin("workflow")
    limiter.room("workflow")
    assert [str(one) for one in limiter.stats().held["workflow"]] == [
        "worker workflow: concurrency 1 of 1",
        "worker workflow: frequency 1 of 1",
    ]
    limiter.end("workflow")
    clock.to(60)
    limiter.room("workflow")
    assert limiter.stats().held == {}
