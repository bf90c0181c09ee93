"""Runs that sleep: rows of the store, and nothing in the worker."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

from pyrula.testing import Environment
from pyrula.workflows import Context, Registry, workflow

RUNS = 2_000


async def test_runs_that_sleep_hold_neither_a_place_nor_memory_of_a_worker() -> None:
    registry = Registry()

    @workflow(registry=registry)
    async def sleeps(ctx: Context) -> None:
        await ctx.sleep(3_600)

    async with Environment(workflows=registry, max_concurrent_runs=50) as env:

        async def put_to_sleep(count: int) -> None:
            await env.client.submit_many("sleeps", [{}] * count)
            await env.settle()

        await put_to_sleep(100)  # what is remembered of the first is there
        tasks = len(asyncio.all_tasks())
        tracemalloc.start()
        try:
            before = _held()
            await put_to_sleep(RUNS)
            grown = (_held() - before) / RUNS
        finally:
            tracemalloc.stop()
        assert (await env.store.overview())["parked"] == {"wait": 100 + RUNS}
        assert env.worker.stats().executing == 0 and len(asyncio.all_tasks()) == tasks
        assert grown < 100, f"{grown:.0f} bytes of Python's for each run that sleeps"
        await env.advance(3_600)
        assert (await env.store.overview())["parked"] == {}
        assert len(await env.client.runs(state="completed", limit=1000)) == 1000


def _held() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
