"""One suite, every store: each test gets a store on a clock that it moves itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyrula.store.open import open_store
from pyrula.store.protocol import Store
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import Hands
from tests.stores import (
    patient_turns,
    postgres_schemas,
    postgres_server,
    shared_url,
    store_kind,
    store_url,
)

__all__ = ["patient_turns", "postgres_schemas", "postgres_server", "shared_url", "store_kind", "store_url"]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def store(store_url: str, clock: VirtualClock) -> AsyncIterator[Store]:
    store = open_store(store_url, clock=clock)
    await store.connect()
    yield store
    found = await store.check()
    await store.close()
    assert found == []


@pytest.fixture
async def hands(store: Store, clock: VirtualClock) -> Hands:
    return Hands(store, clock)
