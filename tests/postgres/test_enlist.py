"""A submit inside the caller's own transaction: all or nothing with it, and never in anybody's way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from pyrula.errors import ConfigurationError, RunIdConflict, RunNotFound
from pyrula.telemetry.otel import Tracing, traced
from pyrula.workflows import Worker, open_store
from tests.postgres.server import Server
from tests.postgres.work import client_of, registry, working


@asynccontextmanager
async def psycopg_sync(url: str) -> AsyncIterator[Any]:
    with psycopg.connect(url) as connection:
        yield (
            connection,
            lambda: asyncio.to_thread(connection.commit),
            lambda: asyncio.to_thread(connection.rollback),
        )


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection, connection.commit, connection.rollback


@asynccontextmanager
async def asyncpg_own(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    yield connection, transaction.commit, transaction.rollback
    await connection.close()


@asynccontextmanager
async def sqlalchemy_driver(url: str) -> AsyncIterator[Any]:
    engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
    async with engine.connect() as connection:
        await connection.exec_driver_sql("SELECT 1")
        raw = await connection.get_raw_connection()
        yield raw.driver_connection, connection.commit, connection.rollback
    await engine.dispose()


@asynccontextmanager
async def sqlalchemy_async(url: str) -> AsyncIterator[Any]:
    engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as session:
        await session.execute(text("SELECT 1"))
        yield session, session.commit, session.rollback
    await engine.dispose()


@asynccontextmanager
async def sqlalchemy_sync(url: str) -> AsyncIterator[Any]:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with Session(engine) as session:
        yield (
            session,
            lambda: asyncio.to_thread(session.commit),
            lambda: asyncio.to_thread(session.rollback),
        )
    engine.dispose()


DRIVERS = [psycopg_sync, psycopg_async, asyncpg_own, sqlalchemy_driver, sqlalchemy_async, sqlalchemy_sync]


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.__name__)
def begun(request: pytest.FixtureRequest, postgres_server: Server) -> Any:
    return lambda: request.param(postgres_server.url())


async def test_rolled_back_nothing_exists(url: str, begun: Any) -> None:
    async with open_store(url) as store:
        client = client_of(store)
        async with begun() as (connection, _, roll_back):
            run_id = await client.submit("double", {"n": 1}, connection=connection)
            await roll_back()
        assert await store.get(run_id) is None
        assert await store.check() == []


async def test_what_is_submitted_in_a_transaction_belongs_to_the_trace_it_was_submitted_in(
    url: str, postgres_server: Server
) -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    async with open_store(url) as plain, psycopg_async(postgres_server.url()) as (connection, commit, _):
        store = traced(plain)
        async with Worker(store, registry, tracer=Tracing(provider)):
            with provider.get_tracer("tests").start_as_current_span("an order"):
                client = client_of(store)
                run_id = await client.submit("double", {"n": 21}, connection=connection)
            await commit()
            assert await client.result(run_id, timeout=10) == 42
    found = {span.name: span for span in spans.get_finished_spans()}
    run, order = found["run double"], found["an order"]
    assert run.parent is not None and order.context is not None
    assert run.parent.span_id == order.context.span_id


async def test_committed_it_runs_at_once_and_not_before(url: str, begun: Any) -> None:
    async with working(url) as client, begun() as (connection, commit, _):
        run_id = await client.submit("double", {"n": 21}, connection=connection)
        other = await client.submit("double", {"n": 1})
        assert await client.result(other, timeout=10) == 2
        await commit()
        assert await client.result(run_id, timeout=10) == 42


async def test_a_submit_that_commits_late_is_not_skipped(url: str, begun: Any) -> None:
    """Its place in the lane is before those that were started meanwhile, and its bell before theirs."""
    async with working(url) as client, begun() as (connection, commit, _):
        late = await client.submit_many("double", [{"n": n} for n in range(3)], connection=connection)
        for _ in range(3):
            ids = await client.submit_many("double", [{"n": n} for n in range(20)])
            await asyncio.gather(*(client.result(run_id, timeout=10) for run_id in ids))
        await commit()
        assert [await client.result(run_id, timeout=10) for run_id in late] == [0, 2, 4]


async def test_delays_and_expiries_set_in_it_hold(url: str, begun: Any) -> None:
    async with working(url) as client, begun() as (connection, commit, _):
        delayed = await client.submit("double", {"n": 1}, delay=0.3, connection=connection)
        due = await client.store.now() + 300_000
        while await client.store.now() <= due:  # noqa: ASYNC110 - the transaction takes its time; time sets no event
            await asyncio.sleep(0.01)
        later = await client.submit("double", {"n": 2}, delay=0.1, expires_in=60, connection=connection)
        await commit()
        assert await client.result(delayed, timeout=10) == 2
        assert await client.result(later, timeout=10) == 4


async def test_a_long_transaction_holds_nobody_up(url: str, begun: Any) -> None:
    """Not even the first of a stamp and of a lane."""
    async with working(url) as client, begun() as (connection, commit, _):
        await client.submit("double", {"n": 1, "k": "new"}, connection=connection)
        other = await client.submit("double", {"n": 5, "k": "new"})
        assert await client.result(other, timeout=10) == 10
        await commit()


async def test_a_run_id_that_is_taken_is_told(url: str, begun: Any) -> None:
    async with open_store(url) as store:
        client = client_of(store)
        await client.submit("double", {"n": 1}, run_id="mine")
        async with begun() as (connection, _, roll_back):
            assert await client.submit("double", {"n": 1}, run_id="mine", connection=connection) == "mine"
            with pytest.raises(RunIdConflict):
                await client.submit("double", {"n": 2}, run_id="mine", connection=connection)
            await roll_back()


async def test_a_connection_without_a_transaction_is_refused(url: str, postgres_server: Server) -> None:
    async with open_store(url) as store:
        client = client_of(store)
        connection = await asyncpg.connect(postgres_server.url())
        with pytest.raises(ConfigurationError, match="without an open transaction"):
            await client.submit("double", {"n": 1}, connection=connection)
        await connection.close()
        with psycopg.connect(postgres_server.url(), autocommit=True) as own:
            with pytest.raises(ConfigurationError, match="without an open transaction"):
                await client.submit("double", {"n": 1}, connection=own)
        with pytest.raises(ConfigurationError, match="object"):
            await client.submit("double", {"n": 1}, connection=object())


async def test_a_connection_to_another_database_is_told_from_the_stores(
    url: str, postgres_server: Server
) -> None:
    elsewhere = postgres_server.url(database="template1")
    async with open_store(url) as store:
        client = client_of(store)
        asyncpgs = await asyncpg.connect(elsewhere)
        with psycopg.connect(elsewhere) as psycopgs:
            with pytest.raises(ConfigurationError, match="does not hold this store"):
                await client.submit("double", {"n": 1}, connection=psycopgs)
            psycopgs.rollback()
        begun = asyncpgs.transaction()
        await begun.start()
        with pytest.raises(ConfigurationError, match="does not hold this store"):
            await client.submit("double", {"n": 1}, connection=asyncpgs)
        await begun.rollback()
        await asyncpgs.close()


async def test_connections_of_sqlalchemy_are_as_good_as_its_sessions(
    url: str, postgres_server: Server
) -> None:
    place = postgres_server.url().replace("postgresql://", "postgresql+psycopg://")
    async with working(url) as client:
        many = create_async_engine(place)
        async with many.begin() as connection:
            first = await client.submit("double", {"n": 1}, connection=connection)
        one = create_engine(place)
        with one.begin() as connection:
            second = await client.submit("double", {"n": 2}, connection=connection)
        assert [await client.result(each, timeout=10) for each in (first, second)] == [2, 4]
        await many.dispose()
        one.dispose()


async def test_what_is_the_first_on_a_connection_of_sqlalchemy_is_committed_with_it(
    url: str, postgres_server: Server
) -> None:
    """SQLAlchemy commits what it has begun; without a statement of its own it would have begun nothing."""
    place = postgres_server.url()
    async with working(url) as client:
        one = create_engine(place.replace("postgresql://", "postgresql+psycopg://"))
        with one.connect() as connection:
            ids = [await client.submit("double", {"n": 1}, connection=connection)]
            connection.commit()
            undone = await client.submit("double", {"n": 1}, connection=connection)
            connection.rollback()
        one.dispose()
        for driver in ("psycopg", "asyncpg"):
            many = create_async_engine(place.replace("postgresql://", f"postgresql+{driver}://"))
            async with many.connect() as connection:
                ids.append(await client.submit("double", {"n": 1}, connection=connection))
                await connection.commit()
            async with AsyncSession(many) as session, session.begin():
                ids.append(await client.submit("double", {"n": 1}, connection=session))
            await many.dispose()
        assert [await client.result(each, timeout=10) for each in ids] == [2] * 5
        with pytest.raises(RunNotFound):
            await client.get(undone)


async def test_a_scoped_session_is_refused_since_another_thread_would_get_another(
    url: str, postgres_server: Server
) -> None:
    place = postgres_server.url().replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(place)
    scoped = scoped_session(sessionmaker(engine))
    async with open_store(url) as store:
        with pytest.raises(ConfigurationError, match="scoped session"):
            await client_of(store).submit("double", {"n": 1}, connection=scoped)
        with pytest.raises(ConfigurationError, match=r"sqlalchemy\.engine\.base\.Engine"):
            await client_of(store).submit("double", {"n": 1}, connection=engine)
        assert await store.runs(None, None, None, 10, None) == ([], None)
    scoped.remove()
    engine.dispose()


async def test_a_store_that_is_not_in_postgresql_says_so() -> None:
    async with open_store("sqlite://") as store:
        with pytest.raises(ConfigurationError, match="PostgreSQL"):
            await client_of(store).submit("double", {"n": 1}, connection=object())
