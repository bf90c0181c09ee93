"""Behind a pooler in transaction mode: each transaction may be on another connection of the server."""

from __future__ import annotations

import asyncio
import logging
import struct
from urllib.parse import quote

import pytest

from pyrula.workflows import StoreUnavailable, open_store
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


async def _turns_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What pgbouncer does while its own login at the server fails: lets in, and answers the first query with that."""
    (length,) = struct.unpack("!I", await reader.readexactly(4))
    await reader.readexactly(length - 4)
    writer.write(b"R" + struct.pack("!II", 8, 0) + b"Z" + struct.pack("!I", 5) + b"I")
    await reader.read(1)
    fields = b"SFATAL\0VFATAL\0C08P01\0Mserver login has been failing, try again later\0\0"
    writer.write(b"E" + struct.pack("!I", 4 + len(fields)) + fields)
    await writer.drain()
    writer.close()


async def test_one_that_can_not_log_in_at_the_server_is_asked_again() -> None:
    """It says so as long as a server that restarts lets nobody in, and for a while after."""
    async with await asyncio.start_server(_turns_away, "127.0.0.1", 0) as pooler:
        port = pooler.sockets[0].getsockname()[1]
        store = open_store(
            f"postgresql://u@127.0.0.1:{port}/d?sslmode=disable&gssencmode=disable&patience=0.3"
        )
        with pytest.raises(StoreUnavailable, match="login has been failing"):
            await store.connect()
        await store.close()
