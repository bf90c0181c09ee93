"""Processes that are killed, stopped and woken; every one of them is gone when its test is over."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from pyrula.store.open import open_store
from pyrula.workflows.client import WorkflowClient
from tests.crash.child import declare
from tests.crash.notes import Note, Stay, read, stays

_ROOT = Path(__file__).parents[2]


class Crew:
    """Worker processes on one SQLite file, and a client here."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'runs.db'}"
        self.notes_file = folder / "notes"
        self.died: dict[int, float] = {}
        self.processes: list[subprocess.Popen[bytes]] = []
        self._folder = folder
        self.store = open_store(self.url)
        self.client = WorkflowClient(self.store, declare(str(self.notes_file)))

    def work(self, **options: Any) -> subprocess.Popen[bytes]:
        """Start a worker."""
        return self.start("tests.crash.child", self.url, str(self.notes_file), json.dumps(options))

    def start(self, *module: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start `python -m module …`."""
        output = (self._folder / f"output-{len(self.processes)}").open("wb")
        with output:
            process = subprocess.Popen(
                [sys.executable, "-m", *module],
                cwd=_ROOT,
                stdout=output,
                stderr=output,
                env={**os.environ, **environment},
            )
        self.processes.append(process)
        return process

    def output(self, process: subprocess.Popen[bytes]) -> str:
        """What a process has printed."""
        return (self._folder / f"output-{self.processes.index(process)}").read_text()

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """SIGKILL."""
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        self.died[process.pid] = time.monotonic()

    async def suspend(self, process: subprocess.Popen[bytes]) -> None:
        """SIGSTOP, between two transactions: a process that is stopped inside one keeps SQLite's lock, and
        nobody but the operating system could take it away."""
        for _ in range(20):
            process.send_signal(signal.SIGSTOP)
            try:
                await asyncio.wait_for(self.client.submit("noop"), 0.5)
                return
            except TimeoutError:
                process.send_signal(signal.SIGCONT)
                await asyncio.sleep(0.05)
        raise AssertionError("the process was inside a transaction each time")

    async def ready(self, *processes: subprocess.Popen[bytes]) -> None:
        """Wait until these have opened the store."""
        pids = {process.pid for process in processes}
        await self.until(lambda: pids <= {one.pid for one in self.notes("ready")}, 20)

    def notes(self, what: str | None = None) -> list[Note]:
        """What was noted."""
        return [one for one in read(self.notes_file) if what in (None, one.what)]

    def stays(self) -> list[Stay]:
        """The bodies so far."""
        return stays(self.notes(), self.died, time.monotonic())

    async def until(self, condition: Callable[[], Any], seconds: float = 10) -> None:
        """Wait for `condition`."""
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - other processes bring it about
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait(10)
        await self.store.close()


@pytest.fixture
async def crew(tmp_path: Path) -> AsyncIterator[Crew]:
    crew = Crew(tmp_path)
    try:
        yield crew
    finally:
        await crew.close()
