"""Opening a file that others hold, or that is another's: whoever opens the one waits, the other is left alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from pyrula.workflows import ConfigurationError, SchemaMismatch, open_store


async def test_a_new_file_that_another_holds_for_itself_is_opened_once_it_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    other = apsw.Connection(str(path))
    other.execute("BEGIN EXCLUSIVE")  # not in WAL mode yet: even the first look at the file has to wait
    store = open_store(f"sqlite:///{path}")
    opening = asyncio.ensure_future(store.connect())
    await asyncio.wait((opening,), timeout=0.1)
    assert not opening.done()
    other.execute("COMMIT")
    other.close()
    await asyncio.wait_for(opening, 10)
    assert await store.workers() == []
    await store.close()


async def test_a_process_that_goes_to_another_folder_stays_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    async with open_store("sqlite:///runs.db") as store:
        monkeypatch.chdir(elsewhere)
        assert store.heartbeat("nobody") is False
        assert await store.gate_page(None, None, "name", 9, 0) == []
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("table", ["users (name)", "meta (one)", "runs (id)", "'sqlite3' (x)"])
async def test_the_database_of_another_program_is_refused_and_left_as_it_was(
    tmp_path: Path, table: str
) -> None:
    path = tmp_path / "other.db"
    other = apsw.Connection(str(path))
    other.execute(f"CREATE TABLE {table}")
    other.close()
    before = path.read_bytes()
    with pytest.raises(
        SchemaMismatch, match=r"other\.db: it is a database of another program \(its tables: "
    ):
        await open_store(f"sqlite:///{path}").connect()
    assert path.read_bytes() == before
    assert not (tmp_path / "other.db-wal").exists()


@pytest.mark.parametrize("url", ["sqlite:///a\0b.db", "sqlite:///a\udcffb.db", None, 7, b"sqlite://", [7]])
def test_what_can_be_no_place_is_refused_before_anything_is_opened(url: object) -> None:
    with pytest.raises(ConfigurationError, match="open_store"):
        open_store(url)  # type: ignore[arg-type]  # as a caller without a type checker may
