"""A store, a client and small workers on the machine's own clock: what is tested here meets real time and
threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pyrula.store.open import open_store
from pyrula.store.protocol import Store
from pyrula.workflows.client import WorkflowClient
from pyrula.workflows.workflow import Registry


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = open_store("sqlite://")
    await store.connect()
    yield store
    found = await store.check()
    await store.close()
    assert found == []


@pytest.fixture
def client(store: Store, registry: Registry) -> WorkflowClient:
    return WorkflowClient(store, registry)


async def until(condition: Callable[[], Any], seconds: float = 10) -> float:
    """Wait for `condition`; the seconds it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - it is about threads, processes and other loops, too
            await asyncio.sleep(0.002)
    return loop.time() - began


def fails(
    store: Any, name: str, *errors: Exception | None, when: Callable[..., object] = lambda *_: True
) -> list[Exception | None]:
    """Let the next calls of `store.name` (`when` its arguments are so) raise these errors in turn, None being none;
    those that are left."""
    call, left = getattr(store, name), list(errors)

    def failing(*args: Any) -> Any:
        error = left.pop(0) if left and when(*args) else None
        if error is not None:
            raise error
        return call(*args)

    setattr(store, name, failing)
    return left


@contextmanager
def counted(store: Any, name: str) -> Iterator[list[Any]]:
    """Every first argument that `store.name` is called with."""
    call, seen = getattr(store, name), []

    def spy(*args: Any) -> Any:
        seen.append(args[0])
        return call(*args)

    setattr(store, name, spy)
    try:
        yield seen
    finally:
        delattr(store, name)
