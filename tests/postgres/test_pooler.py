"""Behind a pooler in transaction mode: each transaction may be on another connection of the server."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import quote

import pytest

from pyrula.workflows import open_store
from tests.postgres.pooler import Pooler
from tests.postgres.server import Server
from tests.postgres.work import client_of, until_asleep, working


def through(server: Server, pooler: Pooler, schema: str, listen: bool) -> str:
    url = server.url(schema, port=pooler.port)
    return f"{url}&listen={quote(server.url(), safe='')}" if listen else url


@pytest.mark.parametrize("listen", [True, False], ids=["listening directly", "looking"])
async def test_workers_and_clients_work_through_it(
    postgres_server: Server, pooler: Pooler, schema: str, listen: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "pyrula.store"):
        async with working(through(postgres_server, pooler, schema, listen)) as client:
            ids = await client.submit_many("double", [{"n": n, "k": f"k{n % 7}"} for n in range(100)])
            results = await asyncio.gather(*(client.result(run_id, timeout=30) for run_id in ids))
            assert results == [2 * n for n in range(100)]
    assert ("a pooler is in between" in caplog.text) is not listen


async def test_a_submit_elsewhere_is_heard_over_the_direct_connection(
    postgres_server: Server, pooler: Pooler, schema: str
) -> None:
    url = through(postgres_server, pooler, schema, listen=True)
    async with working(url) as client, open_store(url) as other:
        await client.result(await client.submit("double", {"n": 1}), timeout=10)
        await asyncio.wait_for(until_asleep(postgres_server.url(schema)), 30)
        loop = asyncio.get_running_loop()
        began = loop.time()
        run_id = await client_of(other).submit("double", {"n": 2})
        assert await client_of(other).result(run_id, timeout=10) == 4
        assert loop.time() - began < 5  # not at the next glance, which is 15 s away


async def test_one_connection_of_the_server_is_enough(postgres_server: Server, schema: str) -> None:
    pooler = Pooler(postgres_server, pool_size=1)
    try:
        async with working(through(postgres_server, pooler, schema, listen=False)) as client:
            ids = await client.submit_many("double", [{"n": n} for n in range(20)])
            await asyncio.gather(*(client.result(run_id, timeout=30) for run_id in ids))
    finally:
        pooler.stop()
