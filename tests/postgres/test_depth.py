"""Deep queues, tables through which as many runs have passed, and somebody's snapshot held open (a backup): each
statement still reads a few pages for each row that it takes or gives.

PYRULA_TEST_DEPTH=1000000 is the full size (a tenth as many lanes; as many runs have passed through),
PYRULA_TEST_SNAPSHOT_SECONDS=600 how long the snapshot is held open before it is looked.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

import psutil
import psycopg
import pytest

from pyrula.model.outcome import Completed
from pyrula.store.protocol import Store
from pyrula.store.shard.sweep import sweep
from pyrula.workflows import Limit, Registry, WorkflowClient, open_store, workflow
from tests.cases.hand import Hand
from tests.postgres.plans import OPTIONS, plans
from tests.postgres.server import Server

QUEUED = int(os.environ.get("PYRULA_TEST_DEPTH", "5000"))
LANES = QUEUED // 10
SECONDS = float(os.environ.get("PYRULA_TEST_SNAPSHOT_SECONDS", "0"))
PLACES, LOOKS = 100, 10
PER_ROW, AT_LEAST = 40, 100
"""Pages for each row: a few levels of a few indexes. And whatever the rows, for a statement that asks ten tables."""
registry = Registry()


@workflow(name="w", registry=registry, concurrency=Limit("k", 1))
async def work(ctx: Any, k: str) -> None:
    """Nobody runs it: its runs are handed out by hand."""


@workflow(name="shared", registry=registry, concurrency=[Limit("k", 2), Limit(key=None, max=7, name="all")])
async def shared(ctx: Any, k: str) -> None:
    """Each run changes the one gate that all share."""


@workflow(name="kept", registry=registry, concurrency=Limit("k", 1, hold="run"))
async def kept(ctx: Any, k: str) -> None:
    """Each run has a family to look for, when it starts and when it ends."""


@pytest.fixture(autouse=True)
def what_is_remembered_is_what_is_stored() -> None:
    """Not looked at here: it would be most of what is measured."""


@pytest.fixture
def explaining_server() -> Iterator[Server]:
    server = Server(options=(*OPTIONS, "synchronous_commit=off", "shared_buffers=256MB", "max_wal_size=4GB"))
    server.start()
    yield server
    server.stop()


class Mill:
    """Runs through a store, by hand. client: to submit them."""

    def __init__(self, store: Store, served: Any) -> None:
        self.client = WorkflowClient(store, registry)
        self._name = served.name
        self._hand = Hand(store, served, f"hand of {served.name}", lease=100_000)
        self._held: list[Any] = []

    async def register(self) -> None:
        await self._hand.register()

    async def queue(self, number: int, keys: int) -> None:
        for start in range(0, number, 1000):
            some = range(start, min(number, start + 1000))
            await self.client.submit_many(self._name, [{"k": f"k{n % keys}"} for n in some])

    async def turn(self, wanted: int = PLACES) -> int:
        """Hand in what was handed out, and take more; how many."""
        handed = await self._hand.turn(*((lease, Completed(b"null")) for lease in self._held), wanted=wanted)
        self._held = [claim.lease for claim in handed.claims]
        return len(self._held) if self._held or handed.next_in != 0 else -1

    async def drain(self) -> None:
        while await self.turn(500) != 0:
            pass

    async def speed(self, turns: int, server: Server) -> float:
        """Runs for each second of processor time, ours and the server's, the best of three: others may be busy."""
        found = []
        for _ in range(3):
            began = _processor_time(server)
            runs = sum([await self.turn() for _ in range(turns)])
            found.append(runs / (_processor_time(server) - began))
        return max(found)


def _processor_time(server: Server) -> float:
    """Of this process and of those that serve it."""
    with psycopg.connect(server.url()) as connection:
        pids = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchall()
    spent = time.process_time()
    for (pid,) in pids:
        with contextlib.suppress(psutil.NoSuchProcess):  # one that leaves now
            times = psutil.Process(pid).cpu_times()
            spent += times.user + times.system
    return spent


@pytest.mark.timeout(7200)
async def test_a_statement_reads_a_few_pages_for_each_row_however_deep_the_queue(
    explaining_server: Server, schema: str
) -> None:
    async with open_store(explaining_server.url(schema)) as store:
        mill, beside, families = Mill(store, work), Mill(store, shared), Mill(store, kept)
        await mill.register()
        await _fill(mill)
        fresh = await mill.speed(LOOKS, explaining_server)
        await beside.register()
        await families.register()
        print(f"\n{'fresh':>24}: {fresh:8.0f} runs per s of processor time, by hand")
        backup = psycopg.connect(explaining_server.url())
        backup.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        backup.execute("SELECT 1")
        opened = time.monotonic()
        began = time.perf_counter()
        await mill.drain()
        print(f"{QUEUED} passed through in {time.perf_counter() - began:.0f} s")
        await _pass(beside, 1000, 20)
        await beside.queue(200, 20)
        await families.queue(200, 20)
        await _fill(mill)
        while time.monotonic() - opened < SECONDS:
            await asyncio.sleep(1)  # a snapshot grows old by the server's clock; no wait at the usual size
            await mill.turn()
        with plans(explaining_server, schema) as read:
            for _ in range(LOOKS):
                await mill.turn()
                await beside.turn(7)
                await families.turn(7)
                await mill.queue(10, 10)
                await store.write(lambda tx: sweep(tx, 0))
        deep = await mill.speed(LOOKS, explaining_server)
        print(
            f"{QUEUED} queued in {LANES} lanes, snapshot open {time.monotonic() - opened:.0f} s: {deep:8.0f} runs/s"
        )
        assert {
            "admit.gate",
            "admit.lease",
            "loader.ready",
            "loader.queue",
            "finish.run",
            "hold.family",
        } <= read.keys()
        walked = {
            block: max(reads, key=lambda each: each.pages / (each.rows + 1))
            for block, reads in read.items()
            if any(each.pages > AT_LEAST + PER_ROW * each.rows for each in reads)
        }
        for block, each in sorted(walked.items()):
            print(f"{block}: {each.pages} pages for {each.rows} rows\n{each.plan}")
        assert {block: (each.pages, each.rows) for block, each in walked.items()} == {}
        assert deep > 0.5 * fresh
        backup.close()
        assert await store.check() == []


async def _fill(mill: Mill) -> None:
    began = time.perf_counter()
    await mill.queue(QUEUED, LANES)
    for _ in range(LANES // PLACES + 1):  # each lane is where it waits
        await mill.turn()
    print(f"{QUEUED} queued in {time.perf_counter() - began:.0f} s")


async def _pass(mill: Mill, number: int, keys: int) -> None:
    began = time.perf_counter()
    for _ in range(0, number, 5000):
        await mill.queue(min(5000, number), keys)
        await mill.drain()
    print(f"{number} passed through in {time.perf_counter() - began:.0f} s")


def test_the_plans_of_a_walk_are_seen(explaining_server: Server, schema: str) -> None:
    """A statement of the store over a table that it has to walk, for the measure's own sake."""
    with psycopg.connect(explaining_server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(f"SET search_path = {schema}")
        connection.execute(
            "CREATE TABLE runs AS SELECT n AS seq, 'x' AS state FROM generate_series(1, 20000) AS n"
        )
        connection.execute("CREATE TABLE leases (seq bigint)")
        connection.execute("CREATE TABLE stamps (id bytea, stamp bytea)")
        with plans(explaining_server, schema) as read, psycopg.connect(explaining_server.url()) as another:
            another.execute(f"SET search_path = {schema}")
            psycopg.RawCursor(another).execute("SELECT stamp FROM stamps WHERE id = $1::bytea", (b"x",))
            another.execute("SELECT count(*) FROM runs")
    assert read.keys() == {"admit.stamp"}
