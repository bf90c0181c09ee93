"""A workflow, and a worker and a client in one process, for tests of a store in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

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
