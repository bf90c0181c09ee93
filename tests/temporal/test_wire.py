"""What leaves for the server: no poll over a limit, even gaps, exact windows. A logging proxy watches."""

import asyncio
import time

import pytest

from pyrula.limiters import Hub, LimitedBy
from pyrula.limiters.os import OsReadings
from pyrula.temporal import PollRate, WorkerLimiter
from tests.limiters.support import FakeMachine, made_hub
from tests.temporal import support
from tests.temporal.support import fan_out, name, running, until

ACTIVITIES_ONLY = {"workflows": [], "activities": support.ACTIVITIES}


async def test_no_poll_leaves_while_the_worker_is_over_a_limit(wired, wire, hub, tally):
    queue, work = name(), name()
    limits = {"worker": {"activity_regular": (2, None)}}
    limiter = WorkerLimiter("w", hub=hub, limits=limits, limiter_check_frequency=0.1)
    async with running(wired, queue, activities=[]), running(wired, work, limiter, **ACTIVITIES_ONLY):
        await until(lambda: len(wire.of("activity", work)) == 2)
        handle = await fan_out(wired, queue, 4, 1.0, queue=work)
        await until(lambda: tally.running == 2)
        before = len(wire.of("activity", work))
        await asyncio.sleep(0.6)
        assert tally.running == 2
        assert len(wire.of("activity", work)) == before == 2
        await handle.result()
        assert len(wire.of("activity", work)) > before


async def test_no_poll_leaves_while_the_machine_is_over_a_limit(wired, wire, tally):
    machine, queue = FakeMachine(mem=95), name()
    hub = Hub(readings=machine)
    hub.node.configure(os_check_intervals={"mem": 0.05})
    limiter = WorkerLimiter("w", hub=hub, limits={"os": {"mem": 90}}, limiter_check_frequency=0.05)
    async with running(wired, queue, limiter):
        handle = await fan_out(wired, queue, 1, 0.0)
        await asyncio.sleep(0.5)
        assert wire.of("activity", queue) == wire.of("workflow", queue) == []
        assert limiter.stats().held["workflow"] == (LimitedBy("os", "mem", "os", 95, 90),)
        machine.mem = 50
        await handle.result()
    hub.close()


async def test_the_real_memory_of_this_machine_holds_polls(wired, wire, hub):
    queue, limit = name(), max(1, int(OsReadings().memory()) - 1)
    limiter = WorkerLimiter("w", hub=hub, limits={"os": {"mem": limit}}, limiter_check_frequency=0.05)
    async with running(wired, queue, limiter):
        await asyncio.sleep(0.3)
        assert wire.of("activity", queue) == []
        limiter.set_limiter_config(limits={})
        await until(lambda: len(wire.of("activity", queue)) > 0)


async def test_permits_are_polls_and_not_one_more(wired, wire, hub):
    queue = name()
    limiter = WorkerLimiter("w", hub=hub, task_poller_pool_size=3)
    async with running(wired, queue, limiter):
        await until(lambda: len(wire.of("activity", queue)) == 3 and len(wire.of("workflow", queue)) == 3)
        await asyncio.sleep(0.2)
        reserved = limiter.stats().reserved
        assert (reserved["activity_regular"], reserved["workflow"]) == (3, 3)
        assert len(wire.of("activity", queue)) == len(wire.of("workflow", queue)) == 3


async def test_of_itself_it_has_ten_polls_for_activities_and_five_for_workflows_each_spaced_apart(
    wired, wire, hub
):
    """Each poller's next poll is a minute away, so that those that end empty are followed by none."""
    queue = name()
    limiter = WorkerLimiter("w", hub=hub, task_poller_limiter=PollRate(limit=1, time_window=60))
    async with running(wired, queue, limiter):
        await until(lambda: len(wire.of("activity", queue)) == 10 and len(wire.of("workflow", queue)) == 5)
        await until(
            lambda: [limiter.stats().reserved[kind] for kind in ("activity_regular", "workflow")] == [0, 0]
        )
        await asyncio.sleep(0.5)
        assert (len(wire.of("activity", queue)), len(wire.of("workflow", queue))) == (10, 5)


async def test_a_pool_of_two_polls_in_even_gaps(wired, wire, hub, tally):
    """Two pollers, each 0.4 s apart: five polls a second in all, whether they bring work or not."""
    queue, work, begun = name(), name(), time.monotonic()
    rate = PollRate(limit=10, time_window=4)
    limiter = WorkerLimiter("w", hub=hub, task_poller_pool_size=2, task_poller_limiter=rate)
    async with running(wired, queue, activities=[]), running(wired, work, limiter, **ACTIVITIES_ONLY):
        await (await fan_out(wired, queue, 12, 0.0, queue=work)).result()
        polls = wire.of("activity", work)
    assert len(polls) >= 12
    # A busy machine may hold up a poll on its way to the proxy, and not the next: so each is held to the beginning.
    assert all(at - begun >= index // 2 * 0.4 for index, at in enumerate(polls)), [at - begun for at in polls]


async def test_an_empty_poll_counts_too(wired, wire, hub):
    queue, begun = name(), time.monotonic()
    rate = PollRate(limit=1, time_window=support.LONG_POLL + 1.5)
    limiter = WorkerLimiter("w", hub=hub, task_poller_pool_size=1, task_poller_limiter=rate)
    async with running(wired, queue, limiter, **ACTIVITIES_ONLY):
        await until(lambda: len(wire.of("activity", queue)) == 2)
    _, second = wire.of("activity", queue)
    assert second - begun >= support.LONG_POLL + 1.5


@pytest.mark.parametrize(("limit", "pool"), [(20, 5), (3, 10)])
async def test_the_most_in_any_window_is_the_limit(client, tally, limit, pool):
    """Windows end when the test says so, so that it does not matter how fast the machine fills them."""
    hub, clock = made_hub()
    queue, work = name(), name()
    limiter = WorkerLimiter(
        "w",
        hub=hub,
        limits={"worker": {"activity_regular": (None, limit)}},
        limiter_check_frequency=0.05,
        task_poller_pool_size=pool,
    )
    async with running(client, queue, activities=[]), running(client, work, limiter, **ACTIVITIES_ONLY):
        handle = await fan_out(client, queue, limit * 4, 0.0, queue=work)
        for window in range(1, 5):
            await until(lambda due=limit * window: len(tally.done) >= due)
            await asyncio.sleep(0.3)
            assert len(tally.starts) == limit * window
            clock.to(60.0 * window)
        await handle.result()
    hub.close()


@pytest.mark.parametrize(
    "limited",
    [
        {
            "limits": {"worker": {"activity_regular": (None, 1)}},
            "limiter_time_windows": {"activity_regular": 1.5},
        },
        {"task_poller_limiter": PollRate(limit=1, time_window=1.5), "task_poller_pool_size": 1},
    ],
)
async def test_the_limiter_is_asked_before_the_poll_so_no_task_times_out(client, hub, tally, limited):  # 183
    queue, work, begun = name(), name(), time.monotonic()
    limiter = WorkerLimiter("w", hub=hub, limiter_check_frequency=0.1, **limited)
    async with running(client, queue, activities=[]), running(client, work, limiter, **ACTIVITIES_ONLY):
        await (await fan_out(client, queue, 3, 0.0, queue=work, timeout=1)).result()
    assert len(tally.starts) == 3  # none was tried twice
    assert all(at - begun >= index * 1.5 for index, at in enumerate(tally.starts))
