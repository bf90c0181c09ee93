"""Workflows that the tests of the command line use; worker processes import this module."""

import asyncio
import threading
from pathlib import Path

from pyrula.workflows import Collect, Limit, Rate, Registry, workflow

registry = Registry()


def note(notes: str, text: str) -> None:
    with Path(notes).open("a") as file:
        file.write(text + "\n")


@workflow(
    registry=registry,
    concurrency=Limit(key="tenant", max=1),
    rate_limit=Rate(key="tenant", per_second=0.001, burst=3),
)
async def sync(ctx, tenant: str, n: int = 0) -> str:
    if n < 0:
        raise ValueError(f"no account {n}")
    return f"{tenant} {n}"


@workflow(registry=registry, trigger=Collect(key="user", max_events=2, window_seconds=60))
async def digest(ctx, key: str, events: list, count: int) -> int:
    return count


@workflow(registry=registry)
async def waits(ctx) -> object:
    return await ctx.wait_for_event("go")


@workflow(registry=registry, concurrency=Limit(key=None, max=1))
async def slow(ctx, notes: str, seconds: float) -> str:
    """Notes each start and end in a file."""
    note(notes, f"start {ctx.run_id}")
    await asyncio.sleep(seconds)
    note(notes, f"end {ctx.run_id}")
    return "slept"


@workflow(registry=registry)
async def stubborn(ctx, notes: str) -> None:
    """Holds a thread that nothing can stop."""

    def hold() -> None:
        note(notes, f"start {ctx.run_id}")
        threading.Event().wait(60)

    await ctx.step(hold)
