"""The second seed's examples on a real Temporal server, through a proxy that logs every poll."""

import asyncio
import time
from datetime import timedelta

from pyrula.temporal import PollRate, WorkerLimiter
from tests.seeds.test_worker_rate_limiters import LIMITS_EXAMPLE, OS_EXAMPLE
from tests.temporal import support
from tests.temporal.support import Lives, fan_out, name, running, until


async def test_the_example_of_os_limits_on_a_real_worker(wired, wire, hub, tally):
    queue = name("worker_1_tq")
    tight = {"os": {**OS_EXAMPLE["os"], "mem": 1}}  # no machine that runs these tests is so empty
    roomy = {"os": {**OS_EXAMPLE["os"], "cpu1": 10**6, "cpu5": 10**6, "cpu15": 10**6, ("disk", "/"): 99}}
    limiter = WorkerLimiter("worker_1", "cluster_1", hub=hub, limits=tight)
    async with running(wired, queue, limiter):
        handle = await fan_out(wired, queue, 3, 0.0)
        await asyncio.sleep(0.5)
        assert wire.of("workflow", queue) == wire.of("activity", queue) == []
        assert ("os", "mem") in [(one.level, one.limitable) for one in limiter.stats().held["workflow"]]
        limiter.set_limiter_config(limits=roomy)
        await handle.result()
    assert len(tally.starts) == 3


async def test_the_example_of_limits_on_a_real_worker_with_one_poller(wired, wire, hub):
    """ "worker_1" runs at most 5 workflows, so that a single workflow task poller is sufficient."""
    queue = name("worker_1_tq")
    limiter = WorkerLimiter(
        "worker_1",
        "cluster_1",
        hub=hub,
        kinds=("workflow",),
        task_poller_pool_size=1,
        limits=LIMITS_EXAMPLE,
        limiter_check_frequency=0.05,
    )
    async with running(wired, queue, limiter, activities=[]):
        handles = [await wired.start_workflow(Lives.run, id=name("wf"), task_queue=queue) for _ in range(8)]
        await until(lambda: limiter.stats().concurrency["workflow"] == 5)
        polls = len(wire.of("workflow", queue))
        await asyncio.sleep(0.4)
        assert limiter.stats().concurrency["workflow"] == 5
        assert len(wire.of("workflow", queue)) == polls
        assert str(limiter.stats().held["workflow"][0]) == "worker workflow: concurrency 5 of 5"
        for handle in handles:
            await handle.signal(Lives.go)
        await asyncio.gather(*(handle.result() for handle in handles))
    assert hub.cluster("cluster_1").stats().frequency["workflow"] == 8


async def test_the_example_of_a_leaky_bucket_on_the_wire(wired, wire, hub):
    """Its minute made two seconds: 10 polls per window and poller, two pollers, 20 in all."""
    queue, begun = name("worker_1_tq"), time.monotonic()
    rate = PollRate(limit=10, time_window=timedelta(seconds=2))
    limiter = WorkerLimiter(
        "worker_1", hub=hub, kinds=("workflow",), task_poller_pool_size=2, task_poller_limiter=rate
    )
    async with running(wired, queue, limiter, activities=[]):
        started = (
            wired.execute_workflow(support.Chain.run, 0, id=name("wf"), task_queue=queue) for _ in range(30)
        )
        await asyncio.gather(*started)
        polls = wire.of("workflow", queue)
    assert len(polls) >= 30, (polls, [poll for poll in wire.polls if poll[1] != "workflow"], limiter.stats())
    # A busy machine may hold up a poll on its way to the proxy, and not the next: so each is held to the beginning.
    assert all(at - begun >= index // 2 * 0.2 for index, at in enumerate(polls)), [at - begun for at in polls]
