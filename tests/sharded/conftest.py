"""A store of three shards, on a clock that the test moves itself; at the end its audit must find nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyrula.store.open import open_store
from pyrula.store.sharded.store import ShardedStore
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import Hands
from tests.sharded.places import SHARDS
from tests.stores import kinds, made, postgres_schemas, postgres_server

__all__ = ["postgres_schemas", "postgres_server"]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


OURS = ("sharded-sqlite-memory", "sharded-postgres")


@pytest.fixture(params=[kind for kind in kinds() if kind in OURS] or OURS[:1])
def sharded_url(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A store of three shards that nobody has used: SQLite in memory, or what the run of the tests is about."""
    return made(str(request.param), tmp_path, request)


@pytest.fixture
async def store(sharded_url: str, clock: VirtualClock) -> AsyncIterator[ShardedStore]:
    store = open_store(sharded_url, clock=clock)
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
