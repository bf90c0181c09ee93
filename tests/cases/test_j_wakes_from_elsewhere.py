"""J, over processes: what another one does, or what lapses by itself, is noticed by a worker that is idle.

In real time; the client has a store of its own, as in another process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest_asyncio

from pyrula.workflows import Debounce, Limit, Rate, Registry, WorkflowClient, open_store, workflow
from pyrula.workflows.worker import Worker

AT_ONCE = 2.0
"""Seconds on a busy machine; a worker that nobody told would look at its next heartbeat, in 10."""
IDLE = 0.2


class Elsewhere:
    """A client apart from the worker, and when bodies of each run (or batch key) began."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.client: WorkflowClient
        self.starts: dict[str, list[float]] = {}

        @workflow(name="w", registry=self.registry, concurrency=Limit("k", 1))
        async def work(ctx: Any, k: str, holds: bool = False, waits: bool = False) -> None:
            self._note(ctx.run_id)
            if waits:
                await ctx.wait_for_event("go")
            if holds:
                await asyncio.Event().wait()

        @workflow(name="r", registry=self.registry, rate_limit=Rate("k", 0.0001, 1))
        async def rated(ctx: Any, k: str) -> None:
            self._note(ctx.run_id)

        @workflow(name="d", registry=self.registry, trigger=Debounce("k", 1000))
        async def digest(ctx: Any, key: str, events: list[Any], count: int) -> None:
            self._note(key)

    def _note(self, name: str) -> None:
        self.starts.setdefault(name, []).append(time.monotonic())

    async def submit(self, name: str = "w", **params: Any) -> str:
        """Submit a run, and leave the worker time to come to rest again."""
        run_id = await self.client.submit(name, params)
        await asyncio.sleep(IDLE)
        return run_id

    async def behind_one(self, k: str) -> tuple[str, str]:
        """A run that has the only slot of its key for long, and one that waits for it."""
        first = await self.client.submit("w", {"k": k, "holds": True})
        await self.starts_within(first, time.monotonic())
        return first, await self.submit(k=k)

    async def starts_within(self, name: str, since: float, *, number: int = 1, after: float = 0) -> None:
        """Raise unless its body begins for the so many-th time at once, or at once `after` so many seconds."""
        while len(self.starts.get(name, [])) < number:
            assert time.monotonic() < since + after + 30, f"{name} was not begun at all"
            await asyncio.sleep(0.005)
        assert after <= self.starts[name][number - 1] - since < after + AT_ONCE

    async def lets_in(self, name: str, deed: Awaitable[Any], number: int = 1) -> None:
        """Raise unless it is not begun before this is done, and then is at once."""
        assert len(self.starts.get(name, [])) == number - 1
        since = time.monotonic()
        await deed
        await self.starts_within(name, since, number=number)


@pytest_asyncio.fixture
async def elsewhere(shared_url: str) -> AsyncIterator[Elsewhere]:
    made = Elsewhere()
    async with open_store(shared_url) as of_worker, open_store(shared_url) as of_client:
        made.client = WorkflowClient(of_client, made.registry)
        async with Worker(of_worker, made.registry) as worker:
            await made.client.execute("w", {"k": "first of all"}, timeout=30)
            yield made
            await worker.stop(0)


async def test_case_061_what_another_process_does_to_a_gate_is_noticed_at_once(elsewhere: Elsewhere) -> None:
    client = elsewhere.client
    _, queued = await elsewhere.behind_one("raised")
    await elsewhere.lets_in(queued, client.override_limit("w.limit", "raised", max=2))
    await elsewhere.submit("r", k="faster")
    queued = await elsewhere.submit("r", k="faster")
    await elsewhere.lets_in(queued, client.override_rate("r.rate", "faster", per_second=100, burst=50))
    await client.pause("w.limit", "paused")
    queued = await elsewhere.submit(k="paused")
    await elsewhere.lets_in(queued, client.resume("w.limit", "paused"))


async def test_case_061_what_another_process_does_to_a_run_is_noticed_at_once(elsewhere: Elsewhere) -> None:
    client = elsewhere.client
    held, queued = await elsewhere.behind_one("cancelled")
    await elsewhere.lets_in(queued, client.cancel(held))
    await elsewhere.lets_in(held, client.retry(held), 2)
    parked = await elsewhere.submit(k="waits", waits=True)
    await elsewhere.lets_in(parked, client.send_event(parked, "go"), 2)
    await client.trigger("d", {"k": "flushed"})
    await asyncio.sleep(IDLE)
    await elsewhere.lets_in("flushed", client.flush("d", "flushed"))


async def test_case_061_what_lapses_by_itself_is_noticed_at_once(elsewhere: Elsewhere) -> None:
    client = elsewhere.client
    lapse = timedelta(seconds=1.5)
    await client.override_limit("w.limit", max=2)
    since = time.monotonic()
    await client.override_limit("w.limit", "lower", max=1, expires_in=lapse)
    await client.pause("w.limit", "paused", until=datetime.now(UTC) + lapse)
    _, lower = await elsewhere.behind_one("lower")
    waiting = [lower, await elsewhere.submit(k="paused")]
    for run_id in waiting:
        await elsewhere.starts_within(run_id, since, after=lapse.total_seconds() - 0.01)
