"""A store of three shards, on a clock that the test moves itself; at the end its audit must find nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyrula.store.open import open_store
from pyrula.store.sharded.store import ShardedStore
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import Hands

SHARDS = 3


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def store(clock: VirtualClock) -> AsyncIterator[ShardedStore]:
    store = open_store(["sqlite://"] * SHARDS, clock=clock)
    assert isinstance(store, ShardedStore)
    await store.connect()
    yield store
    found = await store.check()
    left = [
        await store.shard(number).read(lambda tx: tx.rows("outbox.all", 0, 10)) for number in range(SHARDS)
    ]
    await store.close()
    assert found == []
    assert left == [[]] * SHARDS


@pytest.fixture
async def hands(store: ShardedStore, clock: VirtualClock) -> Hands:
    return Hands(store, clock)
