"""What the demonstration runs. Each body notes its own start and end; the promises are judged by those notes
alone.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec

from pyrula.clock import SystemClock
from pyrula.workflows import Collect, Context, Debounce, Limit, Rate, Registry, workflow

NOTES = "PYRULA_DEMO_NOTES"
"""Environment variable: the file that notes go to."""
BATCH, BATCH_SECONDS = 20, 3.0
QUIET_SECONDS = 2.0
AT_ONCE, PER_SECOND, BURST = 2, 5, 10
registry = Registry()


class Note(msgspec.Struct, frozen=True):
    """A body's own record. at: µs of the machine's monotonic clock, which all its processes share."""

    what: str
    workflow: str
    run_id: str
    key: str
    attempt: int
    claimed_at: int
    at: int
    pid: int
    events: list[dict[str, Any]] = []


def note(
    ctx: Context, what: str, workflow: str, key: str, events: list[dict[str, Any]] | None = None
) -> None:
    """Append a note, in one write: a process that is killed leaves whole lines behind."""
    made = Note(
        what,
        workflow,
        ctx.run_id,
        key,
        ctx.attempt,
        ctx.claimed_at_us,
        SystemClock().monotonic(),
        os.getpid(),
        events or [],
    )
    file = os.open(os.environ[NOTES], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, msgspec.json.encode(made) + b"\n")
    finally:
        os.close(file)


@workflow(
    name="sync_account",
    concurrency=Limit(key="tenant_id", max=AT_ONCE),
    rate_limit=Rate(key="tenant_id", per_second=PER_SECOND, burst=BURST),
    registry=registry,
)
async def sync_account(ctx: Context, tenant_id: str, account: int, seconds: float) -> int:
    """Pretends to sync one account of a tenant."""
    note(ctx, "start", "sync_account", tenant_id)
    await asyncio.sleep(seconds)
    note(ctx, "end", "sync_account", tenant_id)
    return account


@workflow(
    name="digest",
    trigger=Collect(key="user_id", max_events=BATCH, window_seconds=BATCH_SECONDS),
    registry=registry,
)
async def digest(ctx: Context, key: str, events: list[dict[str, Any]], count: int) -> int:
    """Pretends to mail a user what happened."""
    note(ctx, "start", "digest", key, events)
    note(ctx, "end", "digest", key)
    return count


@workflow(
    name="rebuild_index",
    trigger=Debounce(key="repository", window_seconds=QUIET_SECONDS),
    registry=registry,
)
async def rebuild_index(ctx: Context, key: str, events: list[dict[str, Any]], count: int) -> int:
    """Pretends to index a repository, once its pushes have been quiet for a while."""
    note(ctx, "start", "rebuild_index", key, events)
    note(ctx, "end", "rebuild_index", key)
    return count
