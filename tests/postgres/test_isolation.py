"""A server, a role or a URL may have another isolation level for usual: the shard's lock holds all the same."""

from __future__ import annotations

import asyncio

import pytest

from pyrula.workflows import Worker, open_store
from tests.postgres.server import Server
from tests.postgres.work import client_of, registry


@pytest.mark.parametrize("level", ["repeatable%5C%20read", "serializable"])
async def test_whoever_waited_for_the_lock_sees_what_was_written_meanwhile(
    postgres_server: Server, schema: str, level: str
) -> None:
    url = f"{postgres_server.url(schema)}&options=-c%20default_transaction_isolation%3D{level}"
    stores = [open_store(url) for _ in range(4)]
    await asyncio.gather(*(store.connect() for store in stores))
    clients = [client_of(store) for store in stores]
    async with Worker(stores[0], registry=registry), Worker(stores[1], registry=registry):
        ids = await clients[2].submit_many("double", [{"n": n, "k": f"k{n % 5}"} for n in range(60)])
        for _ in range(20):
            await asyncio.gather(*(client.pause("double.limit", until=0.001) for client in clients))
        results = await asyncio.gather(*(clients[3].result(run_id, timeout=30) for run_id in ids))
    assert results == [2 * n for n in range(60)]
    assert await stores[3].check() == []
    for store in stores:
        await store.close()
