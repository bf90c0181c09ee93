"""`pyrula top`: what it shows, and what its keys do."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from pyrula.cli.top import Screen, press, refresh, render
from pyrula.store.open import open_store
from pyrula.workflows import Worker, WorkflowClient
from tests.web import scene
from tests.web.until import until


def text(screen: Screen, now: int) -> str:
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(render(screen, now=now))
    return console.export_text()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


async def test_it_shows_what_runs_what_waits_and_for_what(url: str) -> None:
    async with open_store(url) as store:
        client = WorkflowClient(store, scene.registry)
        await client.submit_many(
            "sync_account", [{"tenant_id": "acme", "account": f"{n}", "wait": True} for n in range(5)]
        )
        await client.submit_many(
            "sync_account", [{"tenant_id": "globex", "account": f"{n}", "wait": True} for n in range(3)]
        )
        async with Worker(store, scene.registry, grace_seconds=0):
            async with asyncio.timeout(10):
                screen = Screen()
                while len(screen.gates) < 4 or screen.gates[0].in_use < 2:
                    await asyncio.sleep(0.01)
                    await refresh(screen, store, 20)
            shown = text(screen, store.clock.wall())
    assert "4 executing   4 queued" in shown and "1 workers" in shown
    assert "sync_account.limit (limit)" in shown
    first, second = [line for line in shown.splitlines() if "slots" in line]
    assert "acme" in first and "2 of 2 slots" in first and "globex" in second
    assert "when a slot frees" in first


def test_keys_choose_sort_and_filter() -> None:
    screen = Screen(gates=[])
    assert press(screen, "q") == "quit" and press(screen, "w") == "why" and press(screen, "p") == "pause"
    assert press(screen, "s") is None and screen.sort == 1
    press(screen, "/")
    for key in "acmx":
        assert press(screen, key) is None
    press(screen, "\x7f")
    press(screen, "e")
    assert screen.search == "acme" and screen.typing
    press(screen, "\r")
    assert not screen.typing and press(screen, "\r") == "why"
    press(screen, "\x1b")
    assert screen.search == ""


def test_it_lives_in_a_terminal_pauses_and_leaves_it_as_it_was(url: str) -> None:
    async def prepare() -> None:
        async with open_store(url) as store:
            client = WorkflowClient(store, scene.registry)
            await client.submit_many("mail", [{"user": "ada"}] * 50)  # more than go while the worker stops
            async with Worker(store, scene.registry, grace_seconds=0):

                async def is_counted() -> bool:
                    return await store.gate("mail.rate", "ada") is not None

                await until(is_counted)

    asyncio.run(prepare())
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "pyrula", "top", "--store", url],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "140", "LINES": "40"},
    )
    os.close(theirs)

    def see(wanted: str) -> str:
        seen, ends = "", time.monotonic() + 20
        while wanted not in seen:
            assert time.monotonic() < ends, seen[-2000:]
            if select.select([ours], [], [], 0.1)[0]:
                seen += os.read(ours, 65536).decode(errors="replace")
        return seen

    try:
        see("mail.rate")
        os.write(ours, b"p")
        see("is paused for key")
        os.write(ours, b"w")
        see("by an operator until")
        os.write(ours, b"q")
        see("\x1b[?1049l")
        assert process.wait(10) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)
