"""J. Wake-ups lost, and pollers that are stuck or slow."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from pyrula.workflows import Limit, Rate, Registry, WorkflowClient, open_store, workflow
from pyrula.workflows.worker import Worker
from tests.cases.scene import Bystander, Scene, assert_times


async def test_case_061_a_raised_limit_is_noticed_at_once(scene: Scene, bystander: Bystander) -> None:
    scene.declare(concurrency=Limit("k", 1))
    await scene.work()
    await scene.submit(6, seconds=1000)
    await bystander.queue()
    await scene.reach(7)
    await scene.client.override_limit("w.limit", max=3)
    await scene.reach(8)
    assert_times(scene.times(), [0, 7, 7])
    assert await scene.executing() == 3


async def test_case_061_a_redeploy_leaves_queued_runs_their_number_until_they_are_restamped(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(concurrency=Limit("k", 1))
    await scene.work()
    await scene.submit(6, seconds=10)
    await scene.redeploy(concurrency=Limit("k", 3))
    await bystander.queue()
    await scene.reach(15)
    assert_times(scene.times(), [0, 10])
    assert await scene.client.restamp("w") == 4
    await scene.reach(16)
    assert_times(scene.times(), [0, 10, 15, 15])
    await scene.reach(100)
    assert_times(scene.times(), [0, 10, 15, 15, 20, 25])
    assert scene.peaks["k"] == 3


async def test_case_062_starts_go_on_after_the_first_burst(scene: Scene, bystander: Bystander) -> None:
    scene.declare(rate_limit=Rate("k", 2 / 3, 2))
    await scene.work()
    await scene.submit(10)
    await bystander.queue()
    await scene.reach(60)
    assert_times(scene.times(), [0, 0, 1.5, 3, 4.5, 6, 7.5, 9, 10.5, 12])


async def test_case_064_there_is_no_tick_between_rounds(scene: Scene, bystander: Bystander) -> None:
    scene.declare()
    await scene.work(max_concurrent_runs=10)
    await scene.submit(100, seconds=0.001)
    await scene.reach(0.01)
    assert_times(scene.times(), [n // 10 / 1000 for n in range(100)])
    assert len(scene.ends) == 100
    await bystander.queue()


async def test_case_064_a_hundred_short_runs_take_no_time_on_a_real_clock(store_url: str) -> None:
    registry = Registry()

    @workflow(name="w", registry=registry)
    async def work(ctx: Any) -> None:
        await asyncio.sleep(0.001)

    async with open_store(store_url) as store:
        client = WorkflowClient(store, registry)
        ids = await client.submit_many(work, [{}] * 100)
        began = time.monotonic()
        async with Worker(store, registry, max_concurrent_runs=10):
            await asyncio.gather(*(client.result(run_id, timeout=30) for run_id in ids))
            took = time.monotonic() - began
    assert took < 3
