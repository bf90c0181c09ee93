"""Who waits for runs to end is written down for as long as it waits, however its waits begin and end."""

from __future__ import annotations

import asyncio
import threading

import psycopg
from psycopg import sql

from pyrula.store.open import open_store
from pyrula.store.postgres.store import PostgresStore
from pyrula.store.postgres.wake import END


async def opened(url: str) -> PostgresStore:
    store = open_store(url)
    assert isinstance(store, PostgresStore)
    await store.connect()
    return store


async def waiting(store: PostgresStore) -> asyncio.Task[None]:
    """A wait that is under way, and what it asked for written down."""
    async with asyncio.timeout(10):
        while not store._sleep.waits:  # a wait ends as it is written down, to look again
            await store.finished([], None)
    wait = asyncio.ensure_future(store.finished([], None))
    await asyncio.sleep(0)
    assert store._ends
    return wait


async def test_a_wait_that_begins_as_the_last_one_is_taken_back_is_written_down(
    url: str, schema: str
) -> None:
    store = await opened(url)
    first = await waiting(store)
    store.nudge()
    await first
    second = asyncio.ensure_future(store.finished([], None))
    store._take_up(threading.Event(), END)  # nobody waits at this moment: it will be told no more
    async with asyncio.timeout(10):
        await second  # it ends as it is written down
    last = await waiting(store)
    with psycopg.connect(url.partition("?")[0]) as connection:
        waiting_clients = sql.SQL("SELECT count(*) FROM {}.sleepers WHERE worker = 0")
        found = connection.execute(waiting_clients.format(sql.Identifier(schema))).fetchone()
    assert found == (1,)
    store.nudge()
    await last
    await store.close()


async def test_whoever_begins_to_wait_while_another_is_written_down_looks_again_after_it(url: str) -> None:
    """A run that ended in between is told to nobody: both have looked too early."""
    store = await opened(url)
    first = await waiting(store)
    store.nudge()
    await first
    store._sleep.waits = False  # as when the connection that listened was lost
    both = [asyncio.ensure_future(store.finished([], None)) for _ in range(2)]
    async with asyncio.timeout(10):
        await asyncio.gather(*both)
    await store.close()


async def test_whoever_relies_on_another_that_gives_up_is_not_forgotten(url: str) -> None:
    """The one that is writing down that they wait is cancelled: then nobody else would ever be told."""
    store = await opened(url)
    first = await waiting(store)
    store.nudge()
    await first
    store._sleep.waits = False  # as when the connection that listened was lost
    both = [asyncio.ensure_future(store.finished([], None)) for _ in range(2)]
    await asyncio.sleep(0)
    both[0].cancel()
    async with asyncio.timeout(10):
        await both[1]
    await store.close()
