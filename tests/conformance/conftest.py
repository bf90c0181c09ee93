"""One suite, every store: each test gets a store on a clock that it moves itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from pyrula.store.open import open_store
from pyrula.store.protocol import Store
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import Hands


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=["memory", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield "sqlite://" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db"


@pytest.fixture
async def store(url: str, clock: VirtualClock) -> AsyncIterator[Store]:
    store = open_store(url, clock=clock)
    await store.connect()
    yield store
    found = await store.check()
    await store.close()
    assert found == []


@pytest.fixture
async def hands(store: Store, clock: VirtualClock) -> Hands:
    return Hands(store, clock)
