"""A submit on a connection that the caller lends: its driver's own, or SQLAlchemy's around it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pyrula.store.protocol import Store, Submission, Submitted

_NOTHING = "SELECT 1"


async def submit(store: Store, connection: Any, submissions: Sequence[Submission]) -> list[Submitted]:
    """Store runs: by the store itself, or in the transaction that is open on `connection`."""
    if connection is None:
        return await store.submit(submissions)
    return await store.submit_in(await _drivers_own(connection), submissions)


async def _drivers_own(connection: Any) -> Any:
    """What a Session, AsyncSession, Connection or AsyncConnection of SQLAlchemy works on; all else as it is.

    It has SQLAlchemy begin before: of a transaction that only the driver knows its commit() is nothing, and what was
    submitted would go with the connection.

    A scoped session is left as it is, to be refused: whose it is depends on the thread or task that asks, and
    that may be another one here.
    """
    kinds = type(connection).__mro__
    if not any(kind.__module__.startswith("sqlalchemy.") for kind in kinds) or hasattr(
        connection, "registry"
    ):
        return connection
    if hasattr(connection, "driver_connection"):
        return connection.driver_connection
    if hasattr(kinds[0], "get_raw_connection"):
        await connection.exec_driver_sql(_NOTHING)  # asyncpg begins with the first statement
        return (await connection.get_raw_connection()).driver_connection
    if hasattr(kinds[0], "exec_driver_sql") and not connection.in_transaction():
        await asyncio.to_thread(connection.exec_driver_sql, _NOTHING)
    inner = getattr(connection, "connection", connection)
    if inner is connection:
        return connection
    if callable(inner):
        inner = inner()
    return await _drivers_own(await inner if hasattr(inner, "__await__") else inner)
