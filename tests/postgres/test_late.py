"""A run whose submit commits late, in a lane whose head was parked: the lane's front goes back for both."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from pyrula.workflows import Limit, Registry, Worker, WorkflowClient, open_store, workflow
from tests.postgres.server import Server


async def _in_state(client: WorkflowClient, run_id: str, state: str) -> None:
    while (await client.get(run_id)).state != state:  # noqa: ASYNC110 - another worker's doing sets no event
        await asyncio.sleep(0.01)


@pytest.mark.timeout(60)
async def test_it_is_found_by_a_worker_that_was_not_there_when_it_came(
    postgres_server: Server, schema: str
) -> None:
    registry, open_door = Registry(), asyncio.Event()

    @workflow(name="one", registry=registry, concurrency=Limit(key=None, max=1))
    async def one(ctx: Any, how: str = "at once") -> str:
        if how == "parks":
            await ctx.wait_for_event("go")
        elif how == "blocks":
            await open_door.wait()
        return how

    url = postgres_server.url(schema)
    async with open_store(url) as store:
        client = WorkflowClient(store, registry)
        with psycopg.connect(postgres_server.url()) as connection:
            async with Worker(store, registry=registry) as first:
                late = await client.submit("one", connection=connection)
                parked = await client.submit("one", {"how": "parks"})
                await _in_state(client, parked, "parked")
                blocking = [await client.submit("one", {"how": "blocks"}) for _ in range(2)]
                await _in_state(client, blocking[0], "executing")
                await client.cancel(blocking[0])
                await _in_state(client, blocking[1], "executing")  # it has waited: the front is at its place
                await client.send_event(parked, "go")
                await _in_state(client, parked, "queued")
                connection.commit()
                other = await client.submit("one")
                while not await client.why(late):  # noqa: ASYNC110 - a turn sets no event
                    await asyncio.sleep(0.01)
                await first.stop(0)
        open_door.set()
    async with open_store(url) as store, Worker(store, registry=registry):
        client = WorkflowClient(store, registry)
        for run_id in (parked, blocking[1], other, late):
            await client.result(run_id, timeout=20)
        assert await store.check() == []
