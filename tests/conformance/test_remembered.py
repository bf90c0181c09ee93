"""What a turn remembers of the one before holds only while nobody else has written lanes, units or gates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from pyrula.store.open import open_store
from pyrula.store.shard.tx import Tx
from pyrula.testing.clock import VirtualClock
from pyrula.workflows import Limit
from tests.conformance.hands import Hands


@pytest.fixture
async def hands(shared_url: str) -> AsyncIterator[list[Hands]]:
    """Of two processes on one store."""
    clock = VirtualClock()
    both = [Hands(open_store(shared_url, clock=clock), clock, name) for name in ("w1", "w2")]
    for each in both:
        each.declare("w", concurrency=Limit(key="k", max=2, name="g"))
        await each.register()
    yield both
    for each in both:
        assert await each.store.check() == []
        await each.store.close()


async def test_a_slot_taken_by_another_process_is_not_taken_again(hands: list[Hands]) -> None:
    one, other = hands
    await one.submit_many("w", ["a0"], k="a")
    assert await one.turn() == ["a0"]
    await one.submit_many("w", ["a1", "a2"], k="a")
    assert await other.turn(1) == ["a1"]
    await one.submit_many("w", ["a3"], k="a")
    assert await one.turn() == []
    assert await other.end("a1") == ["a2"]


async def test_a_turn_that_is_rolled_back_is_not_remembered(hands: list[Hands]) -> None:
    one, _ = hands
    await one.submit_many("w", ["a0"], k="a")
    assert await one.turn() == ["a0"]
    await one.submit_many("w", ["a1", "a2"], k="a")

    def fails(tx: Tx) -> None:
        raise ArithmeticError

    turn, failed = await asyncio.gather(one.turn(1), one.store.write(fails), return_exceptions=True)
    assert turn == ["a1"]
    assert isinstance(failed, ArithmeticError)
    assert await one.turn() == []
    assert (await one.store.gates("g"))[0].in_use == 2
