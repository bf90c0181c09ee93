"""A fleet that has nothing to do costs the server next to nothing, and starts at once what comes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import psycopg
import pytest

from pyrula.workflows import Registry, Worker, WorkflowClient, open_store, workflow
from tests.postgres.server import Server
from tests.postgres.work import client_of, registry, until_asleep

WORKERS = 20
SECONDS = 20.0


@pytest.fixture
def counting_server() -> Server:
    server = Server(options=("log_statement=all",))
    server.start()
    yield server
    server.stop()


@pytest.mark.timeout(200)
async def test_twenty_idle_workers_cost_less_than_five_queries_a_second(
    counting_server: Server, schema: str
) -> None:
    url = counting_server.url(schema)
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(open_store(url)) for _ in range(WORKERS)]
        for number, store in enumerate(stores):
            await stack.enter_async_context(Worker(store, registry=registry, worker_id=f"w{number}"))
        client = client_of(stores[0])
        assert await client.result(await client.submit("double", {"n": 1}), timeout=30) == 2
        await asyncio.wait_for(until_asleep(url, WORKERS), 60)
        before = _statements(counting_server)
        await asyncio.sleep(SECONDS)  # what is asked within this time is what is measured
        asked = _statements(counting_server)[len(before) :]
        assert len(asked) / SECONDS < 5, "\n".join(asked)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await client.result(await client.submit("double", {"n": 3}), timeout=30) == 6
        assert loop.time() - began < 1.5


def _statements(server: Server) -> list[str]:
    """What the server was asked: one line each."""
    return [
        line[:160]
        for line in server.output().splitlines()
        if "LOG:  execute" in line or "LOG:  statement" in line
    ]


async def test_a_submit_by_another_process_is_started_at_once(url: str) -> None:
    async with open_store(url) as ours, open_store(url) as theirs, Worker(ours, registry=registry):
        client = client_of(theirs)
        await client.result(await client.submit("double", {"n": 1}), timeout=30)
        await asyncio.wait_for(until_asleep(url), 30)
        loop = asyncio.get_running_loop()
        waits = []
        for n in range(10):
            began = loop.time()
            assert await client.result(await client.submit("double", {"n": n}), timeout=30) == 2 * n
            waits.append(loop.time() - began)
        assert sorted(waits)[5] < 0.5


async def test_what_a_turn_finds_for_workers_of_another_workflow_is_started_at_once(url: str) -> None:
    """Whichever of them is woken for it takes the bell, and the other one is told."""
    both = Registry()

    @workflow(registry=both)
    async def mine(ctx: object) -> None: ...

    @workflow(registry=both)
    async def yours(ctx: object) -> None: ...

    async with open_store(url) as ours, open_store(url) as theirs, open_store(url) as client_store:
        async with Worker(ours, [mine]), Worker(theirs, [yours]):
            client = WorkflowClient(client_store, both)
            # Whoever sleeps longest is woken: for the second of two alike that is the other worker.
            for name in ("mine", "mine", "yours", "yours") * 3:
                await asyncio.wait_for(until_asleep(url, 2), 30)
                await client.result(await client.submit(name), timeout=10)


async def test_a_client_that_gives_up_while_it_asks_is_told_of_later_ends(url: str) -> None:
    """Whoever asks to be told may be cancelled before that is written down."""
    async with open_store(url) as ours, open_store(url) as theirs, Worker(ours, registry=registry):
        client = client_of(theirs)
        await client.result(await client.submit("double", {"n": 1}), timeout=30)
        await asyncio.wait_for(until_asleep(url), 30)
        for _ in range(5):
            asking = asyncio.ensure_future(theirs.finished([], None))
            await asyncio.sleep(0)
            asking.cancel()
            loop = asyncio.get_running_loop()
            began = loop.time()
            assert await client.result(await client.submit("double", {"n": 2}), timeout=30) == 4
            assert loop.time() - began < 5


def test_the_server_counts(counting_server: Server) -> None:
    with psycopg.connect(counting_server.url()) as connection:
        before = len(_statements(counting_server))
        connection.execute("SELECT 1")
    assert len(_statements(counting_server)) > before
