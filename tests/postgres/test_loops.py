"""A store in a script: one event loop after the other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyrula.store.open import open_store
from pyrula.store.postgres import store as store_module
from pyrula.store.postgres.store import PostgresStore
from pyrula.workflows import Registry, Worker, WorkflowClient, workflow

registry = Registry()


@workflow(registry=registry)
async def steps(ctx: Any) -> int:
    async def one() -> int:
        return 1

    return int(await ctx.step(one))


def opened(url: str) -> PostgresStore:
    store = open_store(url)
    assert isinstance(store, PostgresStore)
    return store


def test_a_step_is_recorded_though_an_earlier_loop_ended_in_the_middle_of_one(url: str) -> None:
    store: Any = opened(url)
    client = WorkflowClient(store, registry)

    async def end_in_a_record() -> None:
        begun = asyncio.Event()

        async def begin(verb: Any) -> Any:
            begun.set()
            await asyncio.Event().wait()

        store.append = begin  # a server that does not answer
        worker = asyncio.ensure_future(Worker(store, registry, grace_seconds=0).run())
        await begun.wait()
        assert not worker.done()

    async def execute() -> Any:
        async with Worker(store, registry):
            return await client.execute("steps", timeout=10)

    asyncio.run(client.submit("steps"))
    asyncio.run(end_in_a_record())
    del store.append
    assert asyncio.run(execute()) == 1
    asyncio.run(store.close())


def test_whoever_submits_looks_on_every_event_loop_whether_it_was_taken_up(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_VERIFY_SECONDS", 0.2)
    store, asked = opened(url), asyncio.Queue[str]()
    client, ask = WorkflowClient(store, registry), store._ask

    async def asking(block: str) -> Any:
        asked.put_nowait(block)
        return await ask(block)

    async def submit_and_stay() -> str:
        await client.submit("steps")
        return await asyncio.wait_for(asked.get(), 10)

    monkeypatch.setattr(store, "_ask", asking)
    asyncio.run(client.submit("steps"))  # over before it has looked
    assert asyncio.run(submit_and_stay()) == "wake.waiting"
    asyncio.run(store.close())
