"""Concurrency: peaks that real activities reach, at one worker and over several, live changed."""

import asyncio
import time

import pytest

from pyrula.temporal import WorkerLimiter
from tests.temporal.support import LONG_POLL, fan_out, name, running, until


async def test_no_more_than_the_limit_at_once_and_nothing_stays_behind(
    client, hub, tally
):  # field report 175
    queue = name()
    limiter = WorkerLimiter("w", hub=hub, limits={"worker": {"activity_regular": (4, None)}})
    async with running(client, queue, limiter):
        handle = await fan_out(client, queue, 50, 0.02)
        await handle.result()
        await until(lambda: limiter.stats().concurrency["activity_regular"] == 0)
    assert (len(tally.starts), tally.peak) == (50, 4)


@pytest.mark.parametrize("pool", [{"task_poller_pool_size": 1}, {}])
async def test_concurrency_changed_live_four_one_seven_none(client, hub, tally, pool):
    """The original's own sample: 10 one-second activities at once, the limit changed before each round.

    With one poller as it stands; with the default pool once the polls that were open under the limit before have ended.
    """
    queue, peaks = name(), []
    limiter = WorkerLimiter("w", hub=hub, limiter_check_frequency=0.1, **pool)
    async with running(client, queue, limiter):
        for limit, n in ((4, 10), (1, 4), (7, 10), (None, 10)):
            limits = {} if limit is None else {"worker": {"activity_regular": (limit, None)}}
            limiter.set_limiter_config(limits=limits)
            await until(lambda most=limit or 10: limiter.stats().reserved["activity_regular"] <= most)
            tally.reset()
            handle = await fan_out(client, queue, n, 1.0)
            await handle.result()
            peaks.append(tally.peak)
    assert peaks == [4, 1, 7, 10]


async def test_polls_that_are_open_when_a_limit_is_lowered_may_still_bring_in_one_each(client, hub, tally):
    queue = name()
    limits = {"worker": {"activity_regular": (5, None)}}
    limiter = WorkerLimiter("w", hub=hub, limits=limits, task_poller_pool_size=3)
    async with running(client, queue, limiter):
        await until(lambda: limiter.stats().reserved["activity_regular"] == 3)
        limiter.set_limiter_config(limits={"worker": {"activity_regular": (1, None)}})
        handle = await fan_out(client, queue, 9, 0.1)
        await until(lambda: len(tally.done) >= 3)
        assert tally.peak <= 3
        tally.peak = tally.running
        await handle.result()
    assert tally.peak <= 1


async def test_a_pool_wider_than_the_limit_does_not_overshoot(client, hub, tally):
    queue = name()
    limits = {"worker": {"activity_regular": (3, None)}}
    limiter = WorkerLimiter("w", hub=hub, limits=limits, task_poller_pool_size=5)
    async with running(client, queue, limiter):
        await (await fan_out(client, queue, 30, 0.03)).result()
    assert tally.peak == 3


@pytest.mark.parametrize(("strict", "most"), [(False, 12), (True, 4)])
async def test_three_workers_on_one_node_limit(client, hub, tally, strict, most):
    """By default a worker's own polls are counted, so each may overshoot by its pool; strict is exact."""
    queue = name()
    limits = {"node": {"activity_regular": (4, None)}}
    limiters = [
        WorkerLimiter(f"w{i}", hub=hub, limits=limits, strict=strict, limiter_check_frequency=0.1)
        for i in range(3)
    ]
    async with running(client, queue, limiters[0]), running(client, queue, limiters[1]):
        async with running(client, queue, limiters[2]):
            await (await fan_out(client, queue, 40, 0.05)).result()
    print(f"three workers, node limit 4, strict={strict}: peak {tally.peak}")
    assert tally.peak <= most
    if not strict:
        assert tally.peak >= 4
    assert hub.node.stats().concurrency["activity_regular"] == 0


@pytest.mark.parametrize("strict", [False, True])
async def test_an_idle_worker_holds_capacity_only_with_strict(client, hub, tally, strict):
    """An idle worker's long polls count with strict: another's first task waits up to one of them."""
    idle, busy = name("idle"), name("busy")
    limits = {"node": {"activity_regular": (2, None)}}
    options = {"hub": hub, "limits": limits, "strict": strict, "limiter_check_frequency": 0.05}
    async with running(client, idle, WorkerLimiter("idle", **options)):
        await asyncio.sleep(0.3)
        async with running(client, busy, WorkerLimiter("busy", **options)):
            begin = time.monotonic()
            await (await fan_out(client, busy, 1, 0.0)).result()
            waited = time.monotonic() - begin
    print(f"strict={strict}: the first task waited {waited:.2f} s")
    assert waited < (60 if strict else LONG_POLL / 2)
    if strict:
        assert waited > 0.6


async def test_eight_two_and_back_live_while_activities_run(client, hub, tally):
    queue = name()

    def limits(n):
        return {"worker": {"activity_regular": (n, None)}}

    limiter = WorkerLimiter(
        "w", hub=hub, limits=limits(1), limiter_check_frequency=0.05, task_poller_pool_size=8
    )
    async with running(client, queue, limiter):
        handle = await fan_out(client, queue, 60, 0.1)
        await until(lambda: len(tally.done) >= 3)
        assert tally.peak == 1
        limiter.set_limiter_config(limits=limits(8))
        await until(lambda: tally.running == 8)
        limiter.set_limiter_config(limits=limits(2))
        await until(lambda: tally.running <= 2)
        tally.peak = 0
        await asyncio.sleep(0.5)
        assert tally.peak == 2
        limiter.set_limiter_config(limits={})
        await handle.result()
