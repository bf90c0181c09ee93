"""What leaves for the server: no poll over a limit, even gaps, exact windows. A logging proxy watches."""

import asyncio
import itertools

import pytest

from pyrula.limiters import Hub, LimitedBy
from pyrula.limiters.os import OsReadings
from pyrula.temporal import PollRate, WorkerLimiter
from tests.limiters.support import FakeMachine
from tests.temporal import support
from tests.temporal.support import fan_out, name, running, until

JITTER = 0.05
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


async def test_a_pool_of_two_polls_in_even_gaps(wired, wire, hub, tally):
    """Two pollers, each 0.4 s apart: five polls a second in all, whether they bring work or not."""
    queue, work = name(), name()
    rate = PollRate(limit=10, time_window=4)
    limiter = WorkerLimiter("w", hub=hub, task_poller_pool_size=2, task_poller_limiter=rate)
    async with running(wired, queue, activities=[]), running(wired, work, limiter, **ACTIVITIES_ONLY):
        await (await fan_out(wired, queue, 12, 0.0, queue=work)).result()
        polls = wire.of("activity", work)
    assert 12 <= len(polls) <= 14
    # Between the limiter and the proxy a busy machine may hold up one poll and not the next.
    assert min(b - a for a, b in zip(polls, polls[2:], strict=False)) >= 0.4 - JITTER
    assert 5 * 0.4 - JITTER <= polls[11] - polls[0] <= 3


async def test_an_empty_poll_counts_too(wired, wire, hub):
    queue = name()
    rate = PollRate(limit=1, time_window=support.LONG_POLL + 1.5)
    limiter = WorkerLimiter("w", hub=hub, task_poller_pool_size=1, task_poller_limiter=rate)
    async with running(wired, queue, limiter, **ACTIVITIES_ONLY):
        await until(lambda: len(wire.of("activity", queue)) == 2)
    first, second = wire.of("activity", queue)
    assert second - first >= support.LONG_POLL + 1.495


@pytest.mark.parametrize(("limit", "pool"), [(20, 5), (3, 10)])
async def test_the_most_in_any_window_is_the_limit(client, hub, tally, limit, pool):
    queue, work = name(), name()
    limiter = WorkerLimiter(
        "w",
        hub=hub,
        limits={"worker": {"activity_regular": (None, limit)}},
        limiter_time_windows={"activity_regular": 0.5},
        limiter_check_frequency=0.1,
        task_poller_pool_size=pool,
    )
    opened = limiter._limiter.levels[0].counters["activity_regular"].window.opened / 1e6
    async with running(client, queue, activities=[]), running(client, work, limiter, **ACTIVITIES_ONLY):
        await (await fan_out(client, queue, limit * 4, 0.0, queue=work)).result()
    windows = [int((at - opened) / 0.5) for at in tally.starts]
    counts = {window: len(list(group)) for window, group in itertools.groupby(sorted(windows))}
    assert sum(counts.values()) == limit * 4
    assert max(counts.values()) == limit


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
    queue, work = name(), name()
    limiter = WorkerLimiter("w", hub=hub, limiter_check_frequency=0.1, **limited)
    async with running(client, queue, activities=[]), running(client, work, limiter, **ACTIVITIES_ONLY):
        await (await fan_out(client, queue, 3, 0.0, queue=work, timeout=1)).result()
    assert len(tally.starts) == 3  # none was tried twice
    first, second = (b - a for a, b in itertools.pairwise(tally.starts))
    assert first < 2.1
    assert 1.5 - JITTER <= second < 2.1
