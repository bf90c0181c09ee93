"""A store in a script: one event loop after the other, two at once, and closed under those who wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from pyrula.workflows import Registry, StoreClosed, Worker, WorkflowClient, open_store, workflow

registry = Registry()


@workflow(registry=registry)
async def work(ctx, seconds: float = 0.05) -> str:
    await asyncio.sleep(seconds)
    return "done"


def places(where: Path) -> list[str | Sequence[str]]:
    return [f"sqlite:///{where / 'runs.db'}", [f"sqlite:///{where / name}.db" for name in ("a", "b")]]


def test_a_store_and_its_client_follow_from_one_event_loop_to_the_next(tmp_path: Path) -> None:
    for url in places(tmp_path):
        store = open_store(url)
        client = WorkflowClient(store, registry)

        async def execute(client: WorkflowClient = client, url: str | Sequence[str] = url) -> str:
            async with open_store(url) as other, Worker(other, registry):  # its commits are another's
                return await client.execute("work", timeout=10)

        assert [asyncio.run(execute()) for _ in range(3)] == ["done"] * 3
        asyncio.run(store.close())


async def test_a_store_in_use_on_one_loop_is_refused_to_another_that_runs_beside_it(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path / 'runs.db'}") as store:
        client = WorkflowClient(store, registry)
        run_id = await client.submit("work")
        waiting = asyncio.ensure_future(client.result(run_id, timeout=10))
        await asyncio.sleep(0)
        for call in (client.submit, client.result, client.get):
            with pytest.raises(RuntimeError, match=r"another event loop.*client\.blocking"):
                await asyncio.to_thread(lambda call=call: asyncio.run(call(run_id)))
        async with Worker(store, registry):
            assert await waiting == "done"


async def test_whoever_waits_on_a_store_learns_that_it_was_closed(tmp_path: Path) -> None:
    for url in ["sqlite://", *places(tmp_path)]:
        for seconds in (0, 60):  # an idle worker, and one whose body executes
            store = open_store(url)
            client = WorkflowClient(store, registry)
            run_id = await client.submit("work", {"seconds": seconds}, delay=0 if seconds else 60)
            worker = Worker(store, registry)
            waits = [asyncio.ensure_future(call) for call in (client.result(run_id), worker.run())]
            for _ in range(200):
                if (await client.get(run_id)).state == ("executing" if seconds else "queued"):
                    break
                await asyncio.sleep(0.01)
            await store.close()
            ended = await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), 10)
            assert [type(end) for end in ended] == [StoreClosed] * 2
            assert worker.executing == 0
