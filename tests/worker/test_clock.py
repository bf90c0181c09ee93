"""The machine's clock is set while a worker is idle: what is due by it now starts now."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pyrula.clock import SECOND, SystemClock
from pyrula.workflows import Registry, Worker, WorkflowClient, open_store, workflow

registry = Registry()


@workflow(registry=registry)
async def note(ctx: Any) -> str:
    return "noted"


class Wall(SystemClock):
    """A machine's clock that is wrong by so many seconds."""

    wrong = 0

    def wall(self) -> int:
        return super().wall() + self.wrong * SECOND


@pytest.mark.parametrize("kind", ["memory", "file", "shards"])
async def test_a_clock_that_was_a_day_slow_and_is_put_right_keeps_nobody_waiting(
    tmp_path: Path, kind: str
) -> None:
    """No lease lapses over it: to the store no time has passed."""
    files = [f"sqlite:///{tmp_path}/{name}.db" for name in "abc"]
    clock = Wall()
    urls = {"memory": "sqlite://", "file": files[0], "shards": files}[kind]
    async with open_store(urls, clock=clock) as store:
        client = WorkflowClient(store, registry)
        async with Worker(store, registry, clock=clock, lease_seconds=3) as worker:
            await client.execute("note", timeout=10)
            clock.wrong = -86_400
            run_id = await client.submit("note", run_at=datetime.now(UTC) - timedelta(seconds=1))
            await client.execute("note", timeout=10)
            assert (await client.get(run_id)).state == "queued"
            life = worker.incarnation
            await asyncio.sleep(1.2)  # a heartbeat, by which a store in memory notices
            clock.wrong = 0
            assert await client.result(run_id, timeout=10) == "noted"
            assert worker.incarnation == life
