"""Whoever looks again for runs to end is answered as if each had been read, by those that ended since."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from pyrula.clock import SECOND
from pyrula.model.outcome import Completed, Failed
from pyrula.store.open import open_store
from pyrula.store.postgres.store import PostgresStore
from pyrula.store.shard.sweep import sweep
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import Hands

OPEN = ("open", None)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def hands(url: str, clock: VirtualClock) -> AsyncIterator[Hands]:
    async with open_store(url, clock=clock) as store:
        assert isinstance(store, PostgresStore)
        hands = Hands(store, clock)
        hands.declare("w")
        await hands.register()
        yield hands


async def started(hands: Hands, *run_ids: str) -> None:
    await hands.submit_many("w", run_ids)
    while not hands.executing.keys() >= set(run_ids):
        await hands.turn()


async def reads_by_id(url: str, schema: str) -> int:
    """How often runs were looked up by their ids."""
    async with await psycopg.AsyncConnection.connect(url.partition("?")[0]) as connection:
        cursor = await connection.execute(
            "SELECT idx_scan FROM pg_stat_user_indexes WHERE schemaname = %s AND indexrelname = 'runs_id'",
            (schema,),
        )
        row = await cursor.fetchone()
        assert row is not None
        return int(row[0])


async def test_those_that_ended_since_are_answered_and_the_others_are_open(hands: Hands) -> None:
    ids = ["a", "b", "c", "d"]
    await started(hands, *ids)
    assert await hands.store.results(ids) == [OPEN] * 4
    await hands.end("b", outcome=Completed(b"1"))
    assert await hands.store.results(["c", "b", "a", "b"]) == [
        OPEN,
        ("completed", b"1"),
        OPEN,
        ("completed", b"1"),
    ]
    await hands.move(0.1)
    await hands.end("a", outcome=Failed(b'{"type":"E"}'))
    await hands.end("c", outcome=Completed(b'"' + b"x" * 5000 + b'"'))
    assert await hands.store.results(ids) == [
        ("failed", b'{"type":"E"}'),
        ("completed", b"1"),
        ("completed", b'"' + b"x" * 5000 + b'"'),
        OPEN,
    ]
    await hands.end("d")
    assert [state for state, _ in await hands.store.results(ids)] == [
        "failed",
        "completed",
        "completed",
        "completed",
    ]


async def test_one_that_ended_as_the_clock_stood_still_is_seen(hands: Hands) -> None:
    await started(hands, "a", "b")
    await hands.end("a")
    assert await hands.store.results(["b"]) == [OPEN]
    await hands.end("b")
    assert await hands.store.results(["b"]) != [OPEN]


async def test_however_many_of_others_ended_meanwhile(hands: Hands) -> None:
    others = [f"o{n}" for n in range(300)]
    await started(hands, "a", "b", *others)
    assert await hands.store.results(["a", "b"]) == [OPEN, OPEN]
    await hands.end(*others)
    await hands.move(0.1)
    await hands.end("b", outcome=Completed(b"2"))
    assert await hands.store.results(["a", "b"]) == [OPEN, ("completed", b"2")]


async def test_one_that_is_retried_is_open_again_until_it_ends(hands: Hands) -> None:
    await started(hands, "a", "b")
    assert await hands.store.results(["a"]) == [OPEN]
    await hands.end("a", outcome=Failed(b"{}"))
    assert await hands.store.retry(["a"]) == ["failed"]  # it was
    assert await hands.store.results(["a"]) == [OPEN]
    await started(hands, "a")
    await hands.end("a", outcome=Completed(b"3"))
    assert await hands.store.results(["a"]) == [("completed", b"3")]


async def test_one_that_was_swept_since_is_told_to_be_gone(hands: Hands) -> None:
    await started(hands, "a", "b")
    assert await hands.store.results(["a", "b"]) == [OPEN, OPEN]
    await hands.end("a")
    await hands.move(1.5)
    assert await hands.store.write(lambda tx: sweep(tx, tx.now - SECOND).runs) == 1
    assert await hands.store.results(["a", "b"]) == [None, OPEN]


async def test_a_second_look_reads_no_run_that_is_still_open(hands: Hands, url: str, schema: str) -> None:
    ids = [f"r{n}" for n in range(500)]
    await started(hands, *ids)
    async with open_store(url, clock=hands.clock) as other:
        await other.results(ids)
        await hands.end("r7")
        for _ in range(20):
            assert (await other.results(ids)).count(OPEN) == 499
    read = 0
    for _ in range(500):  # how often is told as the connection ends, a moment later
        read = await reads_by_id(url, schema)
        if read >= 500:
            break
        await asyncio.sleep(0.02)
    assert 500 <= read < 1000
