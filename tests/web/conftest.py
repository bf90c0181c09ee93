"""A store, an app over it, and somebody who asks it: in this process, or over a socket for a browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from pyrula.store.open import open_store
from pyrula.store.protocol import Store
from pyrula.web import create_app
from pyrula.web.access import Tokens
from pyrula.web.app import App
from pyrula.workflows import Worker, WorkflowClient
from tests.web import scene
from tests.web.until import until

FULL, READ, SUBMIT = "full-token-of-the-night", "read-token-of-the-day", "submit-token-of-a-shop"
LINES = [f"alice full {FULL}", f"grafana read {READ}", f"shop submit:order,digest {SUBMIT}"]


def bearer(token: str) -> dict[str, str]:
    """The header that carries a token."""
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A store in a file, as `pyrula serve` has one."""
    store = open_store(f"sqlite:///{tmp_path / 'runs.db'}")
    await store.connect()
    yield store
    await store.close()


@pytest.fixture
async def worker(store: Store) -> AsyncIterator[Worker]:
    """A worker that serves the scene."""
    async with Worker(store, scene.registry, "worker-1", max_concurrent_runs=40, grace_seconds=0) as worker:
        yield worker


@pytest.fixture
def client(store: Store) -> WorkflowClient:
    """What submits beside HTTP."""
    return WorkflowClient(store, scene.registry)


@pytest.fixture
def make_app(store: Store) -> Callable[..., App]:
    """An app over the store."""

    def make(*, tokens: bool = False, **options: Any) -> App:
        known = Tokens(lines=LINES) if tokens else None
        return create_app(store, registry=scene.registry, tokens=known, **options)

    return make


@pytest.fixture
async def http(make_app: Callable[..., App]) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody on this machine, asking a server without tokens."""
    async with asking(make_app()) as http:
        yield http


@asynccontextmanager
async def asking(
    app: App, headers: dict[str, str] | None = None, host: str = "localhost"
) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who asks an app, without a socket."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}", headers=headers) as http:
        yield http


@asynccontextmanager
async def serving(app: App) -> AsyncIterator[str]:
    """An app on a socket; its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=5))
    running = asyncio.ensure_future(server.serve())
    await until(lambda: server.started)
    yield f"http://localhost:{server.servers[0].sockets[0].getsockname()[1]}"
    app.stop()
    server.should_exit = True
    await running
