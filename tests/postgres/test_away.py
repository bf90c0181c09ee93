"""A server that is not there: told at once in the log, and to the caller after as long as it was told to try."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from pyrula.errors import ConfigurationError, StoreUnavailable
from pyrula.store.postgres.pump import Patience
from pyrula.workflows import open_store
from tests.postgres.server import Server, free_port


async def test_nobody_listening_is_logged_at_once_and_raised_in_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = open_store(f"postgresql://u:secret@127.0.0.1:{free_port()}/db?patience=0.4")
    began = time.monotonic()
    with caplog.at_level(logging.WARNING, "pyrula.store"):
        opening = asyncio.ensure_future(store.connect())
        while not caplog.records:
            assert not opening.done()
            await asyncio.sleep(0.001)
        with pytest.raises(StoreUnavailable, match=r"can't be reached, tried for .*\?patience="):
            await opening
    assert 0.4 <= time.monotonic() - began < 5
    (record,) = caplog.records  # the first failure, and not each
    assert "trying for up to 0.4 s" in record.getMessage()
    assert "secret" not in caplog.text
    await store.close()


async def test_no_patience_tries_once() -> None:
    store = open_store(f"postgresql://u@127.0.0.1:{free_port()}/db?patience=0")
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(store.connect(), 5)
    await store.close()


def test_a_server_never_reached_is_tried_for_10_s_and_one_that_restarts_for_60() -> None:
    usual, given = Patience(None), Patience(3)
    assert (usual.seconds, given.seconds) == (10, 3)
    usual.reached = given.reached = True
    assert (usual.seconds, given.seconds) == (60, 3)


@pytest.mark.parametrize("patience", ["", "-1", "nan", "inf", "soon"])
def test_a_patience_that_is_no_number_of_seconds_is_refused(patience: str) -> None:
    with pytest.raises(ConfigurationError, match=r"patience=.*give seconds"):
        open_store(f"postgresql://u@127.0.0.1/db?patience={patience}")


def lock_out(server: Server, login: str) -> None:
    """Have the server want a password of the user locked, and turn stranger away; returns once it does."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE locked LOGIN PASSWORD 'right'")
        connection.execute("CREATE ROLE stranger LOGIN")
        (file,) = connection.execute("SELECT current_setting('hba_file')").fetchone() or ("",)
        rules = Path(file)
        ours = "host all locked all scram-sha-256\nhost all stranger all reject\n"
        rules.write_text(ours + rules.read_text("utf-8"))
        connection.execute("SELECT pg_reload_conf()")
    with suppress(psycopg.OperationalError):
        while True:
            psycopg.connect(server.url().replace("postgres@", f"{login}@")).close()


@pytest.mark.parametrize("login", ["locked:wrong", "locked", "stranger", "nobody"])
async def test_a_login_that_the_server_refuses_is_not_tried_again(
    own_server: Server, schema: str, login: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong password, none, a user who may not come from here, and one who isn't there."""
    monkeypatch.delenv("PGPASSWORD", raising=False)
    lock_out(own_server, login)
    store = open_store(own_server.url(schema).replace("postgres@", f"{login}@") + "&patience=60")
    with pytest.raises(StoreUnavailable, match=r"refuses this login.*database in the URL") as told:
        await asyncio.wait_for(store.connect(), 30)
    assert "wrong" not in str(told.value)
    await store.close()


async def test_a_database_that_is_not_there_is_not_tried_again(postgres_server: Server) -> None:
    store = open_store(postgres_server.url(database="nowhere") + "?patience=60")
    with pytest.raises(StoreUnavailable, match=r'database "nowhere" does not exist'):
        await asyncio.wait_for(store.connect(), 30)
    await store.close()


async def test_one_that_is_back_is_logged(
    own_server: Server, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "pyrula.store"):
        async with open_store(own_server.url(schema)) as store:
            await asyncio.to_thread(own_server.kill)
            own_server.start()
            await store.now()
    assert "reached again" in caplog.text
