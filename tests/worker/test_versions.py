"""Two versions of a body live at once, as in a rolling deploy, and neither can replay what the other began."""

from __future__ import annotations

from typing import Any

from pyrula.testing import Environment
from pyrula.workflows import Context, Registry, workflow


async def test_what_one_version_sets_aside_the_other_finishes_though_both_are_idle() -> None:
    old, new = Registry(), Registry()

    @workflow(name="w", registry=old)
    async def before(ctx: Context) -> str:
        await ctx.step(_one)
        await ctx.sleep(100)
        return "old"

    @workflow(name="w", registry=new)
    async def after(ctx: Context) -> str:
        await ctx.step(_two)
        await ctx.sleep(100)
        return "new"

    async with Environment(workflows=old) as env:
        first = [await env.client.submit("w") for _ in range(8)]
        await env.advance(1)
        second = await env.start_worker(new)
        await env.stop_worker(env.workers[0])
        later = [await env.client.submit("w") for _ in range(8)]
        await env.advance(1)
        await env.start_worker(old)
        await env.advance(400)
        assert second in env.workers
        results: list[Any] = [(await env.client.get(run_id)).result for run_id in (*first, *later)]
    assert results == ["old"] * 8 + ["new"] * 8


async def _one() -> int:
    return 1


async def _two() -> int:
    return 2
