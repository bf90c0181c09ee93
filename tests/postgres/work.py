"""A workflow, and a worker and a client in one process, for tests of a store in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg

from pyrula.store.protocol import Store
from pyrula.workflows import Limit, Registry, Worker, WorkflowClient, open_store, workflow

registry = Registry()


@workflow(name="double", registry=registry, concurrency=Limit(key="k", max=2))
async def double(ctx: Any, n: int, k: str = "a") -> int:
    return 2 * int(await ctx.step(_same, n))


async def _same(n: int) -> int:
    return n


@asynccontextmanager
async def working(url: str, **options: Any) -> AsyncIterator[WorkflowClient]:
    """A client of a store at which a worker is at work; the store's audit must find nothing in the end."""
    async with open_store(url) as store:
        async with Worker(store, registry=registry, **options):
            yield WorkflowClient(store, registry)
        assert await store.check() == []


def client_of(store: Store) -> WorkflowClient:
    return WorkflowClient(store, registry)


def multiply(connection: psycopg.Connection[Any], schema: str, run_id: str, times: int) -> None:
    """Queue a queued run so many times more, by the rows that a submit of all of them at once writes."""
    columns = ", ".join(
        name
        for (name,) in connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = 'runs'",
            (schema,),
        )
        if name not in ("seq", "run_id")
    )
    connection.execute(
        f"""
        WITH more AS (
                 INSERT INTO {schema}.runs (run_id, {columns})
                 SELECT run_id || '-' || n, {columns} FROM {schema}.runs, generate_series(1, {times}) AS n
                 WHERE run_id = %s ORDER BY n
                 RETURNING seq, lane, stamp),
             queued AS (
                 INSERT INTO {schema}.queue (lane, resumed, seq, stamp) SELECT lane, 0, seq, stamp FROM more)
        INSERT INTO {schema}.inbox (lane, look, seq) SELECT lane, 0, min(seq) FROM more GROUP BY lane
        """,  # type: ignore[call-overload]  # names of ours
        (run_id,),
    )


async def until_asleep(url: str, workers: int = 1) -> None:
    """Wait until so many workers have gone to sleep: written down, and with nothing on its way to them."""
    schema = url.partition("schema=")[2].partition("&")[0]
    count = f"SELECT count(*) FROM {schema}.sleepers WHERE worker = 1"
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        while connection.execute(count).fetchone() != (workers,):  # type: ignore[call-overload]  # noqa: ASYNC110 - a name of ours; a server sets no event
            await asyncio.sleep(0.01)
