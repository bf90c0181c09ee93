"""A worker at rest takes up a change of its limiters that another store object of the same store has written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyrula.workflows import Registry, Worker, WorkflowClient, open_store, workflow
from tests.stores import postgres_schemas, postgres_server, shared_url

__all__ = ["postgres_schemas", "postgres_server", "shared_url"]


async def test_a_worker_at_rest_has_the_change_within_a_second(shared_url: str) -> None:
    registry = Registry()
    started = asyncio.Event()

    @workflow(registry=registry)
    async def w(ctx: Any) -> None:
        started.set()

    async with open_store(shared_url) as here, open_store(shared_url) as there:
        client = WorkflowClient(there, registry)
        idle, full = Worker(here, registry, "idle"), {"worker": {"workflow": (0, None)}}
        async with idle:
            await client.result(await client.submit("w"), timeout=10)  # it is up, and comes to rest
            loop = asyncio.get_running_loop()
            for limits in (full, {}):
                await client.set_limiter_config("idle", limits=limits)
                asked = loop.time()
                while idle.get_limiter_config().limits != limits:
                    assert loop.time() - asked < 1
                    await asyncio.sleep(0.005)
                started.clear()
                run_id = await client.submit("w")
                if limits:  # a worker that is held back rests, too, and hears of what lifts it
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(started.wait(), 0.1)
                else:
                    await client.result(run_id, timeout=10)
