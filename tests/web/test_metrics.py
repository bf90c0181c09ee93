"""Figures as Prometheus reads them."""

from __future__ import annotations

from pyrula.testing import Environment
from pyrula.web.metrics import Metrics
from pyrula.workflows import Context, Registry, Retry, RetryAfter, workflow


async def test_each_state_of_unfinished_runs_is_one_series_whatever_the_reasons() -> None:
    registry = Registry()

    @workflow(registry=registry, retry=Retry(2, initial_seconds=60))
    async def calls(ctx: Context, how: str) -> None:
        if how == "later":
            raise RetryAfter(60)
        if how == "fails":
            raise OSError("no line")
        await ctx.sleep(60)

    async with Environment(workflows=registry) as env:
        for how in ("later", "fails", "waits"):
            await env.client.submit("calls", {"how": how})
        await env.client.submit("calls", {"how": "waits"}, delay=60)
        await env.settle()
        figures = (await Metrics().render(env.store)).decode().splitlines()
    assert sorted(line for line in figures if line.startswith("pyrula_runs{")) == [
        'pyrula_runs{state="delayed",workflow=""} 2.0',
        'pyrula_runs{state="parked_retry",workflow=""} 1.0',
        'pyrula_runs{state="parked_wait",workflow=""} 1.0',
        'pyrula_runs{state="queued",workflow=""} 0.0',
    ]
