"""Whoever dies between two shards' commits: what was acknowledged or noted happens, once."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from pyrula.errors import RunIdConflict
from pyrula.workflows import WorkflowClient, open_store
from pyrula.workflows.worker import Worker
from tests.sharded.child import CHOSEN, declare
from tests.sharded.places import SHARDS, how_many, key_on

ROOT = Path(__file__).parents[2]


async def killed_at(point: str, folder: Path) -> tuple[str, Path]:
    """The URLs of a store in which somebody died at that point, and the notes that were left."""
    urls = " ".join(f"sqlite:///{folder / f'{number}.db'}" for number in range(SHARDS))
    notes = folder / "notes"
    notes.touch()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.sharded.child", urls, str(notes), point, cwd=ROOT
    )
    try:
        assert await asyncio.wait_for(process.wait(), 30) == -signal.SIGKILL
    finally:
        if process.returncode is None:
            process.kill()
    return urls, notes


async def test_a_run_of_a_chosen_id_comes_though_its_client_died_half_way(tmp_path: Path) -> None:
    urls, notes = await killed_at("noted", tmp_path)
    registry = declare(str(notes))
    async with open_store(urls) as store:
        assert await how_many(store, CHOSEN) == 0
        client = WorkflowClient(store, registry)
        async with Worker(store, registry):
            while await how_many(store, CHOSEN) == 0:  # noqa: ASYNC110 - after the grace of who sent it, of which nobody tells
                await asyncio.sleep(0.02)
            assert await client.result(CHOSEN, timeout=10) == 1
        with pytest.raises(RunIdConflict):
            await client.submit("leaf", {"k": key_on(1)}, run_id=CHOSEN)
        assert await client.submit("leaf", {"k": key_on(2)}, run_id=CHOSEN) == CHOSEN
        assert notes.read_text().split() == [CHOSEN]
        assert await store.check() == []


async def test_who_submits_a_run_again_whose_client_died_half_way_has_it(tmp_path: Path) -> None:
    urls, notes = await killed_at("noted", tmp_path)
    async with open_store(urls) as store:
        client = WorkflowClient(store, declare(str(notes)))
        with pytest.raises(RunIdConflict):
            await client.submit("leaf", {"k": key_on(1)}, run_id=CHOSEN)
        assert await client.submit("leaf", {"k": key_on(2)}, run_id=CHOSEN) == CHOSEN
        assert await how_many(store, CHOSEN) == 1


@pytest.mark.parametrize("point", ["sent", "ended", "told"])
async def test_a_family_goes_on_whoever_dies_over_its_messages(tmp_path: Path, point: str) -> None:
    urls, notes = await killed_at(point, tmp_path)
    registry = declare(str(notes))
    async with open_store(urls) as store:
        client = WorkflowClient(store, registry)
        async with Worker(store, registry):
            assert await client.result("top", timeout=20) == 2
            (child,) = await store.children("top", 9)
            assert child["state"] == "completed"
            assert notes.read_text().split() == [child["run_id"]]
        left = [
            await store.shard(number).read(lambda tx: tx.rows("outbox.all", 0, 9)) for number in range(SHARDS)
        ]
        assert left == [[]] * SHARDS
        assert await store.check() == []
