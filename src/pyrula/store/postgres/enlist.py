"""Enlist: a submit inside a transaction of the caller's own, on a connection of whichever driver it uses."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from pyrula.errors import ConfigurationError
from pyrula.store.protocol import Submission, Submitted
from pyrula.store.shard.submit import EXPIRE, START, is_same, lane_of, row_of

_NOT_THERE = ("42P01", "3F000")
"""SQLSTATE: no such table, no such schema."""
Fetch = Callable[[str, Sequence[Any]], Awaitable[list[tuple[Any, ...]]]]
"""Runs a statement with $1… parameters; its rows."""


async def enlist(
    fetch: Fetch, submit: str, existing: str, submissions: Sequence[Submission], wall: int | None
) -> list[Submitted]:
    """Write runs down, each with its run_id, in the transaction behind `fetch`; their stamps are there already.

    submit, existing: the statements. wall: of the store's own clock; None for the server's. Raises
    ConfigurationError if the transaction is of a database in which the store is not.
    """
    columns = [list(column) for column in zip(*(_row(submission) for submission in submissions), strict=True)]
    try:
        created = {row[0] for row in await fetch(submit, [*columns, START, EXPIRE, wall])}
    except Exception as error:  # of any driver, which all say it alike
        if getattr(error, "sqlstate", None) not in _NOT_THERE:
            raise
        raise ConfigurationError(
            f"connection= leads to a database that does not hold this store ({error}); pass one to the database that "
            "open_store's URL names"
        ) from error
    repeated = [submission.run_id for submission in submissions if submission.run_id not in created]
    there = {row[0]: row[1:] for row in await fetch(existing, [repeated])} if repeated else {}
    return [_answer(submission, created, there) for submission in submissions]


def _row(submission: Submission) -> tuple[Any, ...]:
    lane = lane_of(submission)
    row = row_of(submission, lane, 0, 0)
    context, times = row[12], (submission.delay, submission.run_at, submission.expires_in)
    return *row[:10], context, *times


def _answer(submission: Submission, created: set[Any], there: dict[Any, tuple[Any, ...]]) -> Submitted:
    run_id = submission.run_id
    assert run_id is not None
    if run_id in created or run_id not in there:
        # Not there: somebody's that this transaction's snapshot does not show. It is theirs.
        return Submitted(run_id, created=run_id in created)
    workflow, params = there[run_id]
    return Submitted(run_id, created=False, conflict=not is_same(submission, workflow, bytes(params)))


def fetch_on(connection: Any) -> Fetch:
    """How to run a statement on a connection that has a transaction open. Raises ConfigurationError."""
    if isinstance(connection, psycopg.Connection):
        _check_psycopg(connection)
        return lambda statement, params: asyncio.to_thread(_fetch_psycopg, connection, statement, params)
    if isinstance(connection, psycopg.AsyncConnection):
        _check_psycopg(connection)
        return lambda statement, params: _fetch_async_psycopg(connection, statement, params)
    asyncpg = sys.modules.get("asyncpg")
    if asyncpg is not None and isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy):
        if not connection.is_in_transaction():
            raise ConfigurationError(_no_transaction(connection))
        return lambda statement, params: _fetch_asyncpg(connection, statement, params)
    raise ConfigurationError(
        f"connection= is a {type(connection).__module__}.{type(connection).__qualname__}; pass a psycopg "
        "Connection or AsyncConnection, an asyncpg connection, or a Session or Connection of SQLAlchemy, sync or async "
        "(of a scoped session, the session that calling it gives)"
    )


def _check_psycopg(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
        raise ConfigurationError(_no_transaction(connection))


def _no_transaction(connection: Any) -> str:
    return (
        f"connection= is a {type(connection).__module__}.{type(connection).__qualname__} without an open transaction: "
        "the run would be there at once, whatever becomes of the rest; begin one first (of SQLAlchemy, not at the "
        "isolation level AUTOCOMMIT)"
    )


def _fetch_psycopg(connection: psycopg.Connection[Any], statement: str, params: Sequence[Any]) -> Any:
    with psycopg.RawCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
        return cursor.execute(statement, params).fetchall()


async def _fetch_async_psycopg(
    connection: psycopg.AsyncConnection[Any], statement: str, params: Sequence[Any]
) -> list[tuple[Any, ...]]:
    async with psycopg.AsyncRawCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
        await cursor.execute(statement, params)
        return await cursor.fetchall()


async def _fetch_asyncpg(connection: Any, statement: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [tuple(record.values()) for record in await connection.fetch(statement, *params)]
