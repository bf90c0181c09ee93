"""One server for the folder's tests, a schema for each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count

import pytest

from tests.postgres.pooler import Pooler
from tests.postgres.server import Server
from tests.stores import postgres_server

__all__ = ["postgres_server"]

_schemas = count(1)


@pytest.fixture
def schema() -> str:
    """A name that nobody has used."""
    return f"own_{os.getpid()}_{next(_schemas)}"


@pytest.fixture
def url(postgres_server: Server, schema: str) -> str:
    """A store that nobody has used."""
    return postgres_server.url(schema)


@pytest.fixture(scope="session")
def pooler(postgres_server: Server) -> Iterator[Pooler]:
    """A pooler in transaction mode before the server."""
    pooler = Pooler(postgres_server)
    yield pooler
    pooler.stop()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that may be killed: it writes what it says it has written."""
    server = Server(durable=True)
    server.start()
    yield server
    server.stop()
