"""Opening a file that others hold: whoever opens it waits, and does not fail."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw

from pyrula.workflows import open_store


async def test_a_new_file_that_another_holds_for_itself_is_opened_once_it_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE there (one)")
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
