"""Workers in processes of their own, in real time, and the notes that their bodies leave."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pyrula.workflows import WorkflowClient, open_store
from tests.cases.child import declare

_ROOT = Path(__file__).parents[2]
_GLANCE = 0.02


class Note(NamedTuple):
    """What a body said. what: ready, start, step, end, acknowledged."""

    at: float
    pid: int
    what: str
    run_id: str
    k: str


class Fleet:
    """Starts `tests.cases.child` processes on one store, and a client here. Every process it started is gone
    when it is closed.

    submitted: when each run was, by the machine's clock.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.notes_file = url, folder / "notes"
        self.notes_file.touch()
        self.submitted: dict[str, float] = {}
        self._folder = folder
        self._options: dict[str, Any] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self.store = open_store(url)
        self._client: WorkflowClient | None = None

    def work(self, *, environment: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
        """Start a worker, or one that submits. options: see `tests.cases.child`."""
        self._options = {**self._options, **options}
        with (self._folder / f"output-{len(self._processes)}").open("wb") as output:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.cases.child",
                    self.url,
                    str(self.notes_file),
                    json.dumps(options),
                ],
                cwd=_ROOT,
                env={**os.environ, **(environment or {})},
                stdout=output,
                stderr=output,
            )
        self._processes.append(process)
        return process

    @property
    def client(self) -> WorkflowClient:
        """A client that declares what the workers declare."""
        if self._client is None:
            self._client = WorkflowClient(self.store, declare(str(self.notes_file), **self._options))
        return self._client

    async def submit(self, **params: Any) -> str:
        """Submit a run."""
        run_id = await self.client.submit("w", {"k": "k", **params})
        self.submitted[run_id] = time.time()
        return run_id

    def kill(self, process: subprocess.Popen[bytes], number: int) -> float:
        """Send a signal to one of its own processes; answers when."""
        process.send_signal(number)
        return time.time()

    async def until(self, holds: Callable[[], Any], within: float = 30) -> None:
        """Wait in real time. Raises, with what the processes said, if it takes too long."""
        give_up = time.monotonic() + within
        while not holds():
            assert time.monotonic() < give_up, f"not within {within} s:\n{self.said()}"
            await asyncio.sleep(_GLANCE)

    async def ready(self, *processes: subprocess.Popen[bytes]) -> None:
        """Wait until these have come to the store."""
        await self.until(lambda: {p.pid for p in processes} <= {n.pid for n in self.notes("ready")})

    def notes(self, what: str = "", run_id: str = "") -> list[Note]:
        """What was noted, in order."""
        lines = self.notes_file.read_text().split("\n")[:-1]
        notes = [
            Note(float(at), int(pid), *rest) for at, pid, *rest in (line.split(" ", 4) for line in lines)
        ]
        return [note for note in notes if what in ("", note.what) and run_id in ("", note.run_id)]

    def starts(self, run_id: str) -> list[float]:
        """When bodies of this run began."""
        return [note.at for note in self.notes("start", run_id)]

    def ends(self, run_id: str) -> list[float]:
        """When bodies of this run returned."""
        return [note.at for note in self.notes("end", run_id)]

    def ready_at(self, process: subprocess.Popen[bytes]) -> float:
        """When this process was ready."""
        return next(note.at for note in self.notes("ready") if note.pid == process.pid)

    def pid_of(self, run_id: str) -> int:
        """The process that ran this run's last body."""
        return self.notes("start", run_id)[-1].pid

    def peak(self, k: str) -> int:
        """Bodies of a key at once, at most; a body whose process was killed counts until its run starts
        again."""
        active: Counter[str] = Counter()
        peak = 0
        for note in self.notes():
            if note.k == k and note.what in ("start", "end"):
                active[note.run_id] = int(note.what == "start")
                peak = max(peak, active.total())
        return peak

    def said(self) -> str:
        """The notes, and the processes' output."""
        outputs = [path.read_text() for path in sorted(self._folder.glob("output-*"))]
        return "\n".join([self.notes_file.read_text()[-2000:], *outputs])[-6000:]

    async def close(self) -> None:
        """End every process that this started."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        await self.store.close()
