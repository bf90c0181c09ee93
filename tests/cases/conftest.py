"""One store fixture for all cases; a scene in virtual time; a run of another key beside each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.cases.fleet import Fleet
from tests.cases.scene import Bystander, Scene
from tests.stores import patient_turns, postgres_schemas, postgres_server, shared_url, store_kind, store_url

__all__ = ["patient_turns", "postgres_schemas", "postgres_server", "shared_url", "store_kind", "store_url"]


@pytest_asyncio.fixture
async def scene(store_url: str) -> AsyncIterator[Scene]:
    """A store of each kind, without a worker. At the end its counters must agree with slots and leases."""
    made = Scene(store_url)
    async with made.env:
        yield made
        assert await made.env.store.check() == []


@pytest_asyncio.fixture
async def bystander(scene: Scene) -> AsyncIterator[Bystander]:
    """Runs of another key, checked at the end."""
    made = Bystander(scene)
    yield made
    made.check()


@pytest_asyncio.fixture
async def fleet(shared_url: str, tmp_path: Path) -> AsyncIterator[Fleet]:
    """Worker processes on a store of each kind that processes can share."""
    made = Fleet(shared_url, tmp_path)
    yield made
    await made.close()
