"""Somebody's snapshot stays open (a backup) while runs pass through: no statement of a turn walks over the dead."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import psycopg
import pytest

from pyrula.store.statements import statements
from pyrula.workflows import Limit, Registry, Worker, WorkflowClient, open_store, workflow
from tests.postgres.server import Server

KEYS, ROUNDS = 20, 60
"""Each round starts two runs of each key, behind one gate that all share: so each row is changed some hundred times."""
PER_ROW = 40
"""Pages of the buffer that a statement may look at for each row it takes or gives: a few levels of a few indexes."""
registry = Registry()


@workflow(name="w", registry=registry, concurrency=[Limit("k", 2), Limit(key=None, max=7, name="all")])
async def work(ctx: Any, k: str) -> None:
    pass


class Explained:
    """Statements of the store as it runs them, explained instead."""

    def __init__(self, connection: psycopg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self.plans: dict[str, str] = {}
        self._names = {"schema": schema, "channel": "c", "lock": 0}
        self._sql = statements("pyrula.store.postgres")
        for setting in ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "jit"):
            connection.execute(f"SET {setting} = off")
        connection.execute(f"SET search_path = {schema}")

    def pages(self, block: str, *params: Any) -> int:
        """How many pages of the buffer it looked at. Nothing stays changed."""
        text = self._sql[block]
        if "{schema}" in text:
            text = text.format(**self._names)
        self._connection.execute("BEGIN")
        try:
            cursor = psycopg.RawCursor(self._connection)
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) {text}", params)
            plan = "\n".join(row[0] for row in cursor.fetchall())
        finally:
            self._connection.execute("ROLLBACK")
        self.plans[block] = plan
        first = re.search(r"Buffers: shared (?:hit=(\d+))?(?: read=(\d+))?", plan)
        return sum(int(number or 0) for number in first.groups()) if first else 0

    def column(self, query: str) -> list[Any]:
        return [row[0] for row in self._connection.execute(query).fetchall()]


@pytest.mark.timeout(300)
async def test_a_statement_of_a_turn_reads_a_few_pages_for_each_row(
    url: str, postgres_server: Server, schema: str
) -> None:
    backup = psycopg.connect(postgres_server.url())
    async with open_store(url) as store:
        client = WorkflowClient(store, registry)
        await client.submit("w", {"k": "first"})
        backup.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        backup.execute("SELECT 1")
        async with Worker(store, registry=registry, max_concurrent_runs=100):
            for _ in range(ROUNDS):
                ids = await client.submit_many("w", [{"k": f"k{n % KEYS}"} for n in range(2 * KEYS)])
                await asyncio.gather(*(client.result(run_id, timeout=60) for run_id in ids))
        await client.submit_many("w", [{"k": f"k{n % KEYS}"} for n in range(10 * KEYS)])
        with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
            explained = Explained(connection, schema)
            lanes, gates, units = (
                explained.column(f"SELECT id FROM {table}") for table in ("lanes", "gates", "units")
            )
            crowded = explained.column("SELECT id FROM gates WHERE waiting > 0")
            zeros = [0] * len(lanes)
            asks: list[tuple[str, tuple[Any, ...], int]] = [
                ("loader.lane", (lanes,), len(lanes)),
                ("loader.unit", (units,), len(units)),
                ("loader.gate", (gates,), len(gates)),
                ("loader.dirty", (1 << 60, 512), 1),
                ("loader.ready", (["w"], [0], [0], [b""], [64]), 5),
                ("loader.few_lines", (gates, [16] * len(gates)), len(gates)),
                ("loader.lines", (crowded,), len(crowded)),
                ("loader.queue", (lanes, zeros, zeros, [4] * len(lanes)), 5 * len(lanes)),
                ("loader.queue", (lanes, [1] * len(lanes), zeros, [4] * len(lanes)), len(lanes)),
                ("admit.heads", (lanes,), 2 * len(lanes)),
                ("admit.meta", (), 1),
                ("admit.bells", (b"", 512), 2 * len(lanes)),
                ("finish.free", (gates, [0] * len(gates)), len(gates)),
                ("drain.timers", (1 << 60, 256), 1),
                ("drain.wall_timers", (1 << 60, 256), 1),
                ("drain.next_due", ("w1",), 5),
                ("turn.signals", ("w1",), 1),
                ("reap.lapsed", (0, 8), 1),
                ("wake.look", ("w1", ["w"], 1, None, 0), 15),
                ("wake.waiting", (), 2),
            ]
            pages = {
                f"{block} {number}": (explained.pages(block, *params), rows)
                for number, (block, params, rows) in enumerate(asks)
            }
            walked = {name: found for name, found in pages.items() if found[0] > PER_ROW * (found[1] + 1)}
            assert walked == {}, [explained.plans[name.split()[0]] for name in walked]
        backup.close()
        async with Worker(store, registry=registry, max_concurrent_runs=100):
            await _until_idle(client)
        assert await store.check() == []


async def _until_idle(client: WorkflowClient) -> None:
    for _ in range(1200):
        overview = await client._store.overview()
        if not overview["executing"] and not overview["queued"]:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(await client._store.overview())
