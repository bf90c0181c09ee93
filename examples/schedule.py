"""Schedules: at nine in Berlin, and every 20 minutes; one run a tick. In virtual time, from a Monday, 0:00 UTC."""

import asyncio

from pyrula.testing import Environment
from pyrula.workflows import Context, Cron, Every, workflow

env = Environment()


@workflow(schedule=Cron("0 9 * * MON-FRI", tz="Europe/Berlin", params={"what": "report"}))
async def morning(ctx: Context, what: str) -> None:
    print(f"{env.clock.today:%a %H:%M} UTC  {what}, run {ctx.run_id}")


@workflow(schedule=Every(20 * 60))
async def clean_up(ctx: Context) -> None: ...


async def main() -> None:
    async with env:
        await env.start_worker()  # a second one: still one run a tick
        await env.advance(10 * 3600)
        found = await env.client.runs("clean_up")
        print(f"{len(found)} runs of clean_up in ten hours")


asyncio.run(main())
