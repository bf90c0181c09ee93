"""A schema is made once, whoever comes first; a version that is not this code's stops the start."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from pyrula.errors import SchemaMismatch, ShardMismatch, StoreUnavailable
from pyrula.policies.limit import Limit
from pyrula.store.open import open_store, store_exists
from pyrula.store.postgres import migrate
from pyrula.store.postgres.address import address
from pyrula.store.postgres.store import PostgresStore
from pyrula.store.shard.sweep import sweep_floor
from pyrula.store.statements import statements
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import Hands
from tests.postgres.server import Server
from tests.postgres.work import client_of, working


def set_version(server: Server, schema: str, version: int) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"UPDATE {schema}.meta SET version = {version}")


async def test_many_that_start_at_once_make_one_schema(url: str) -> None:
    stores = [open_store(url) for _ in range(8)]
    await asyncio.gather(*(store.connect() for store in stores))
    ids = await asyncio.gather(
        *(client_of(store).submit("double", {"n": n}) for n, store in enumerate(stores))
    )
    assert len(await client_of(stores[0]).runs(workflow="double")) == len(set(ids)) == 8
    for store in stores:
        await store.close()


async def test_many_bring_a_schema_forward_at_once_and_one_does_it(
    url: str, postgres_server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version of tomorrow, reached by steps that must each be taken once."""
    async with open_store(url):
        pass
    assert migrate.bring_schema_forward(address(url)) == (migrate.VERSION, migrate.VERSION)
    steps = {
        "migrate.first": "CREATE TABLE taken (n integer); INSERT INTO taken VALUES (1)",
        "migrate.second": "INSERT INTO taken VALUES (2)",
    }
    monkeypatch.setattr(migrate, "statements", lambda package: {**statements(package), **steps})
    monkeypatch.setattr(migrate, "_STEPS", {migrate.VERSION: "first", migrate.VERSION + 1: "second"})
    monkeypatch.setattr(migrate, "VERSION", migrate.VERSION + 2)
    with pytest.raises(SchemaMismatch, match="pyrula migrate"):
        async with open_store(url):
            pass
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: migrate.bring_schema_forward(address(url)), range(6)))
    assert sorted(map(str, answers)) == sorted(
        map(str, [(migrate.VERSION - 2, migrate.VERSION)] + 5 * [(migrate.VERSION, migrate.VERSION)])
    )
    with psycopg.connect(postgres_server.url()) as connection:
        assert connection.execute(f"SELECT n FROM {schema}.taken ORDER BY n").fetchall() == [(1,), (2,)]
    async with working(url) as client:
        assert await client.result(await client.submit("double", {"n": 4}), timeout=10) == 8


def test_where_there_is_no_store_there_is_nothing_to_bring_forward(url: str) -> None:
    assert migrate.bring_schema_forward(address(url)) is None
    assert not store_exists(url)


async def test_an_older_worker_that_meets_a_newer_schema_says_so_and_stops(
    url: str, postgres_server: Server, schema: str
) -> None:
    async with open_store(url) as store:
        assert await store.check() == []
    set_version(postgres_server, schema, migrate.VERSION + 1)
    with pytest.raises(SchemaMismatch, match="upgrade this one"):
        async with open_store(url):
            pass
    with pytest.raises(SchemaMismatch, match="upgrade this one"):
        migrate.bring_schema_forward(address(url))


async def test_an_older_schema_names_the_way_out(url: str, postgres_server: Server, schema: str) -> None:
    async with open_store(url):
        pass
    set_version(postgres_server, schema, migrate.VERSION - 1)
    with pytest.raises(SchemaMismatch, match="pyrula migrate"):
        async with open_store(url):
            pass


async def test_a_schema_of_version_1_goes_on_where_it_was(
    url: str, postgres_server: Server, schema: str
) -> None:
    clock = VirtualClock()
    hands = Hands(open_store(url, clock=clock), clock)
    hands.declare("w", concurrency=Limit(key="k", max=1, name="g"))
    await hands.register()
    await hands.submit_many("w", ["a0", "a1"], k="a")
    await hands.submit_many("w", ["c0"], k="c")
    await hands.turn()
    await hands.end("c0")
    await hands.store.write(lambda tx: sweep_floor(tx, 0, 100, b"\xff" * 16))
    await hands.store.close()
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"ALTER TABLE {schema}.gates DROP COLUMN closed_by")
        connection.execute(f"INSERT INTO {schema}.slots SELECT slots, seq, 0 FROM {schema}.leases")
        connection.execute(f"CREATE INDEX queue_seq ON {schema}.queue (seq)")
        connection.execute(
            f"CREATE TABLE {schema}.bells "
            "(lane bytea PRIMARY KEY, look integer NOT NULL, seq bigint, seq_resumed bigint)"
        )
        connection.execute(f"DROP TABLE {schema}.run_keys, {schema}.gate_names, {schema}.unused")
        connection.execute(f"CREATE INDEX gates_name ON {schema}.gates (name, key)")
        connection.execute(f"ALTER TABLE {schema}.gates DROP COLUMN lanes")
        connection.execute(f"CREATE INDEX runs_key ON {schema}.runs (key, seq) WHERE key <> ''")
    set_version(postgres_server, schema, 1)
    assert migrate.bring_schema_forward(address(url)) == (1, migrate.VERSION)
    with psycopg.connect(postgres_server.url()) as connection:
        for index in ("queue_seq", "runs_key", "gates_name"):
            assert connection.execute("SELECT to_regclass(%s)", (f"{schema}.{index}",)).fetchone() == (None,)
    hands.store = open_store(url, clock=clock)
    assert await hands.store.check() == []
    assert await hands.end("a0") == ["a1"]
    assert await hands.store.check() == []
    listed, _ = await hands.store.runs(None, None, "a", 10, None)
    assert [run.run_id for run in listed] == ["a1", "a0"]
    assert {gate.key for gate in await hands.store.gates("g")} == {"a", "c"}
    due = await hands.store.now() + 1
    await hands.store.write(lambda tx: sweep_floor(tx, due, 100, b"\xff" * 16))
    assert {gate.key for gate in await hands.store.gates("g")} == {"a"}
    assert await hands.store.check() == []
    await hands.store.close()


async def test_a_shard_opened_as_another_is_refused(url: str) -> None:
    async with open_store(url):
        pass
    store = PostgresStore(url, clock=None, retention=1, shard=1, shards=2)
    with pytest.raises(ShardMismatch, match="shard 0 of 1"):
        await store.connect()
    await store.close()


async def test_a_role_without_rights_is_told_what_to_ask_for(
    url: str, postgres_server: Server, schema: str
) -> None:
    role = f"role_{schema}"
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN NOSUPERUSER")
        connection.execute("REVOKE CREATE ON DATABASE postgres FROM PUBLIC")
    theirs = url.replace("postgres@", f"{role}@")
    with pytest.raises(StoreUnavailable, match="CREATE SCHEMA"):
        async with open_store(theirs):
            pass
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {role}")
    async with working(theirs) as client:
        assert await client.result(await client.submit("double", {"n": 4}), timeout=10) == 8


async def test_two_schemas_of_one_database_do_not_meet(
    url: str, postgres_server: Server, schema: str
) -> None:
    async with open_store(url) as one, open_store(postgres_server.url(f"{schema}_b")) as other:
        run_id = await client_of(one).submit("double", {"n": 1})
        assert await other.get(run_id) is None
