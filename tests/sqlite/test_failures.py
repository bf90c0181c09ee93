"""What a file can't do is told as an error of pyrula, and nothing is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyrula.store.sqlite.connection import Connection
from pyrula.workflows import Registry, StoreCorrupt, StoreUnavailable, WorkflowClient, open_store, workflow

registry = Registry()


@workflow(registry=registry)
async def note(ctx: Any, text: str) -> None: ...


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"nowhere/runs\.db.*folder exists"):
        await open_store(f"sqlite:///{tmp_path}/nowhere/runs.db").connect()


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear database, " * 100)
    with pytest.raises(StoreCorrupt, match=r"letter\.txt.*check the path"):
        await open_store(f"sqlite:///{tmp_path}/letter.txt").connect()


async def test_a_full_disk_fails_the_submit_and_the_store_goes_on_once_there_is_room(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path}/runs.db") as store:
        connection = next(value for value in vars(store).values() if isinstance(value, Connection))
        client = WorkflowClient(store, registry)
        connection._pragma("max_page_count=100")
        with pytest.raises(StoreUnavailable, match="full"):
            await client.submit("note", {"text": "x" * 900_000})
        assert list(await client.runs()) == []
        connection._pragma("max_page_count=1000000")
        await client.submit("note", {"text": "x" * 900_000})
        assert len(await client.runs()) == 1
