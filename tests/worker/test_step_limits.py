"""`activity_direct` on pyrula's own workers: what it holds back."""

from __future__ import annotations

from typing import Any

from pyrula.testing import Environment
from pyrula.workflows import Registry, workflow


async def test_a_limit_of_steps_bounds_the_runs_that_are_taken_up_and_not_the_steps_of_those_under_way() -> (
    None
):
    registry = Registry()
    now = peak = 0

    async def call() -> None:
        nonlocal now, peak
        now += 1
        peak = max(peak, now)
        await env.sleep(10)
        now -= 1

    @workflow(registry=registry)
    async def calls(ctx: Any) -> None:
        await env.sleep(1)
        await ctx.step(call)

    limits = {"worker": {"activity_direct": (1, None)}}
    async with Environment(workflows=registry, limits=limits) as env:
        first = [await env.client.submit("calls") for _ in range(2)]
        await env.advance(1)
        later = await env.client.submit("calls")
        await env.settle()
        assert (now, peak) == (2, 2)
        assert (await env.client.get(later)).state == "queued"
        await env.advance(1)  # by then its row says what holds it
        assert "worker activity_direct: concurrency 2 of 1" in (await env.client.why(later))["text"]
        await env.advance(9)
        assert [(await env.client.get(run_id)).state for run_id in [*first, later]] == [
            "completed", "completed", "executing",
        ]  # fmt: skip
