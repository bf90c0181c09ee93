"""What a file can't do is told as an error of pyrula, and nothing is stored."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
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


def _removed(path: Path) -> None:
    path.unlink()


def _replaced(path: Path) -> None:
    path.with_name("other.db").write_bytes(path.read_bytes())
    path.with_name("other.db").replace(path)


def _moved(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


@pytest.mark.parametrize("change", [_removed, _replaced, _moved])
async def test_a_file_that_is_taken_away_while_it_is_open_takes_no_more_runs(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """What was written to it would be answered for, and seen by nobody who opens the path."""
    (tmp_path / "here").mkdir()
    path = tmp_path / "here" / "runs.db"
    async with open_store(f"sqlite:///{path}") as store:
        client = WorkflowClient(store, registry)
        run_id = await client.submit("note", {"text": "before"})
        waiting = asyncio.create_task(client.result(run_id, timeout=20))
        for _ in range(9):  # until it listens
            await asyncio.sleep(0)
        change(path)
        with pytest.raises(StoreUnavailable, match=r"runs\.db: it was moved, removed or replaced"):
            await client.submit("note", {"text": "after"})
        with pytest.raises(StoreUnavailable, match="moved, removed or replaced"):
            await client.get(run_id)
        with pytest.raises(StoreUnavailable, match="moved, removed or replaced"):
            await waiting


async def test_a_file_that_was_away_for_a_moment_goes_on(tmp_path: Path) -> None:
    here, away = tmp_path / "here", tmp_path / "away"
    here.mkdir()
    async with open_store(f"sqlite:///{here}/runs.db") as store:
        client = WorkflowClient(store, registry)
        await client.submit("note", {"text": "before"})
        here.rename(away)
        with pytest.raises(StoreUnavailable):
            await client.submit("note", {"text": "meanwhile"})
        away.rename(here)
        await client.submit("note", {"text": "after"})
        assert [run.params["text"] for run in await client.runs()] == ["after", "before"]


@contextlib.contextmanager
def _failing_disk(path: Path) -> Iterator[None]:
    """What this process has open of the file can't be read, as from a disk that is gone."""
    opened = {}
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if link.readlink() in (path, path.with_name(f"{path.name}-wal")):
                opened[int(link.name)] = os.dup(int(link.name))
    blind = os.open(path, os.O_WRONLY)
    try:
        for descriptor in opened:
            os.dup2(blind, descriptor)
        yield
    finally:
        os.close(blind)
        for descriptor, real in opened.items():
            os.dup2(real, descriptor)
            os.close(real)


@pytest.mark.skipif(sys.platform != "linux", reason="finds descriptors in /proc")
async def test_a_disk_that_can_not_be_read_is_told_and_the_store_goes_on_once_it_can(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with open_store(f"sqlite:///{path}") as store:
        client = WorkflowClient(store, registry)
        run_id = await client.submit("note", {"text": "before"})
        async with open_store(f"sqlite:///{path}") as other:
            await WorkflowClient(other, registry).submit_many("note", [{"text": "x" * 9000}] * 100)
        with _failing_disk(path), pytest.raises(StoreUnavailable, match=r"runs\.db: disk I/O error"):
            await client.get(run_id)
        assert (await client.get(run_id)).params == {"text": "before"}
