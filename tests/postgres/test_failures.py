"""What the server can't do is told as an error of pyrula, and no run is blamed for it."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from pyrula.errors import ConfigurationError, StoreCorrupt, StoreUnavailable
from pyrula.store.postgres.address import address
from pyrula.store.postgres.migrate import bring_schema_forward, is_there
from pyrula.workflows import Registry, Worker, WorkflowClient, open_store, workflow
from tests.postgres.server import Server
from tests.postgres.work import client_of, working

registry = Registry()


@workflow(registry=registry)
async def speak(ctx: Any, text: str) -> str:
    return text * 3000


def ask(server: Server, *statements: str, database: str = "postgres") -> None:
    with psycopg.connect(server.url(database=database), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)  # type: ignore[call-overload]  # names of ours


def refusing(schema: str, state: str) -> str:
    """Statements after which the server fails, with this SQLSTATE, whatever writes much into a run, as a disk does on
    which there is still room for little."""
    return f"""
        CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF length(NEW::text) > 5000 THEN
                RAISE EXCEPTION 'could not extend file' USING ERRCODE = '{state}';
            END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON {schema}.runs
            FOR EACH ROW EXECUTE FUNCTION {schema}.refuse()"""


@pytest.mark.parametrize("state", ["53100", "58030"])
async def test_a_disk_without_room_fails_calls_and_no_run(
    postgres_server: Server, schema: str, url: str, state: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_store(url) as store:
        client = WorkflowClient(store, registry)
        run_id = await client.submit("speak", {"text": "hm"})
        ask(postgres_server, refusing(schema, state))
        with pytest.raises(StoreUnavailable, match=f"{schema}: could not extend file"):
            await client.submit("speak", {"text": "hm" * 3000})
        async with Worker(store, registry):
            for _ in range(100):
                if caplog.text.count("turn failed") > 1:
                    break
                await asyncio.sleep(0.1)
            assert (await client.get(run_id)).state == "executing"
            ask(postgres_server, f"DROP FUNCTION {schema}.refuse() CASCADE")
            assert await client.result(run_id, timeout=20) == "hm" * 3000
        assert "Traceback" not in caplog.text


async def test_a_damaged_table_is_told(postgres_server: Server, schema: str, url: str) -> None:
    async with open_store(url) as store:
        client = WorkflowClient(store, registry)
        await client.submit("speak", {"text": "hm"})
        ask(postgres_server, refusing(schema, "XX001"))
        with pytest.raises(StoreCorrupt, match="restore a backup"):
            await client.submit("speak", {"text": "hm" * 3000})


async def test_a_server_that_takes_no_writes_is_told(postgres_server: Server, schema: str) -> None:
    """As a standby; each way in which a store is first touched."""
    ask(
        postgres_server,
        f"CREATE ROLE {schema} LOGIN",
        f"GRANT CREATE ON DATABASE postgres TO {schema}",
        f"ALTER ROLE {schema} SET default_transaction_read_only = on",
    )
    url = postgres_server.url(schema).replace("postgres@", f"{schema}@")
    with pytest.raises(StoreUnavailable, match=r"read-only transaction; .*name the primary"):
        await open_store(url).connect()
    assert not is_there(address(url))
    async with open_store(postgres_server.url(schema)) as store:
        await store.connect()
    ask(
        postgres_server,
        f"GRANT USAGE ON SCHEMA {schema} TO {schema}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {schema}",
        f"UPDATE {schema}.meta SET version = 1",
    )
    with pytest.raises(StoreUnavailable, match="name the primary"):
        bring_schema_forward(address(url))
    ask(postgres_server, f"UPDATE {schema}.meta SET version = 7")
    async with open_store(url) as store:
        with pytest.raises(StoreUnavailable, match="name the primary"):
            await WorkflowClient(store, registry).submit("speak", {"text": "hm"})
        with pytest.raises(StoreUnavailable):
            store.heartbeat("nobody")


async def test_a_role_without_rights_is_told(postgres_server: Server, schema: str, url: str) -> None:
    async with open_store(url) as store:
        await store.connect()
    ask(postgres_server, f"CREATE ROLE {schema} LOGIN", f"GRANT USAGE ON SCHEMA {schema} TO {schema}")
    with pytest.raises(StoreUnavailable, match=r"permission denied .*own the schema"):
        await open_store(url.replace("postgres@", f"{schema}@")).connect()
    with pytest.raises(StoreUnavailable, match=r"permission denied .*own the schema"):
        is_there(address(url.replace("postgres@", f"{schema}@")))


async def test_a_schema_that_was_dropped_is_told(postgres_server: Server, schema: str, url: str) -> None:
    async with open_store(url) as store:
        client = WorkflowClient(store, registry)
        await client.submit("speak", {"text": "hm"})
        ask(postgres_server, f"DROP SCHEMA {schema} CASCADE")
        with pytest.raises(StoreUnavailable, match="dropped or renamed"):
            await client.submit("speak", {"text": "hm"})


@pytest.mark.parametrize("setting", ["client_encoding = 'LATIN1'", "standard_conforming_strings = off"])
async def test_what_a_role_sets_changes_no_text(postgres_server: Server, schema: str, setting: str) -> None:
    ask(
        postgres_server,
        f"CREATE ROLE {schema} LOGIN",
        f"GRANT CREATE ON DATABASE postgres TO {schema}",
        f"ALTER ROLE {schema} SET {setting}",
    )
    async with working(postgres_server.url(schema).replace("postgres@", f"{schema}@")) as client:
        await client.result(await client.submit("double", {"n": 1, "k": "日本 ü…"}), timeout=20)
    async with open_store(postgres_server.url(schema)) as store:
        assert [gate.key for gate in await client_of(store).gates()] == ["日本 ü…"]


async def test_what_the_url_and_the_environment_say_of_encodings_changes_no_text(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    for given in (url, f"{url}&client_encoding=LATIN9"):
        async with working(given) as client:
            await client.result(await client.submit("double", {"n": 1, "k": "日本 ü…"}), timeout=20)
            assert [gate.key for gate in await client.gates()] == ["日本 ü…"]


@pytest.mark.parametrize(("encoding", "holds"), [("LATIN1", False), ("EUC_JP", False), ("SQL_ASCII", True)])
async def test_a_database_that_can_not_hold_every_text_is_refused(
    postgres_server: Server, schema: str, encoding: str, holds: bool
) -> None:
    ask(postgres_server, f"CREATE DATABASE {schema} ENCODING '{encoding}' TEMPLATE template0")
    url = postgres_server.url(schema, database=schema)
    if not holds:
        with pytest.raises(ConfigurationError, match=f"encoding of this database is {encoding}.*UTF8"):
            await open_store(url).connect()
        return
    async with working(url) as client:
        await client.result(await client.submit("double", {"n": 1, "k": "日本 ü…"}), timeout=20)
        assert [gate.key for gate in await client.gates()] == ["日本 ü…"]
