"""The course of the demonstration: two worker processes, their load, and the kill."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pyrula.cli.demo.verdict import Play
from pyrula.cli.demo.view import Scene, Tenant
from pyrula.cli.demo.workflows import NOTES, Note, registry
from pyrula.cli.output import now
from pyrula.clock import SECOND, SystemClock
from pyrula.store.open import open_store
from pyrula.workflows.client import WorkflowClient

LEASE_SECONDS = 2
_KILL_AT = 6.0
_START_WITHIN = 20.0
_END_BY = 50.0
_GLANCE = 0.2
_TENANTS = {"whale": (60, 0.5, 0.0), "shop": (60, 0.15, 0.0), "corner": (8, 0.2, 1.2)}
"""Tenant → runs, seconds that each takes, seconds between their submissions."""
_DIGESTS = {"ann": (47, 0.08), "bob": (9, 0.1)}
_PUSHES = {"docs": (10, 0.4), "site": (3, 0.2)}
"""Key → events, seconds between them."""


@dataclass
class Stage:
    """What the play leaves behind as it goes."""

    folder: Path
    client: WorkflowClient
    clock: SystemClock
    started: int
    processes: dict[str, subprocess.Popen[bytes]]
    runs: dict[str, str] = field(default_factory=dict)
    events: dict[str, dict[str, int]] = field(default_factory=lambda: {"digest": {}, "rebuild_index": {}})
    killed: dict[int, int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Since the curtain rose."""
        return (self.clock.monotonic() - self.started) / SECOND

    @property
    def notes(self) -> list[Note]:
        """What the bodies have noted so far; the last line may be under way."""
        path = self.folder / "notes"
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")[:-1]
        return [msgspec.json.decode(line, type=Note) for line in lines]

    @property
    def play(self) -> Play:
        """What was asked for."""
        return Play(list(self.runs), dict(self.killed), self.events)

    def tell(self, text: str) -> None:
        """Note something that happened, for people."""
        self.told.append(f"{self.seconds:5.1f} s  {text}")

    def over(self, notes: list[Note]) -> bool:
        """Whether all that was submitted has ended, and every event is in a run."""
        ended = {note.run_id for note in notes if note.what == "end"}
        batched = {event["id"] for note in notes for event in note.events}
        sent = {event for events in self.events.values() for event in events}
        return set(self.runs) <= ended and sent <= batched


@asynccontextmanager
async def staged(folder: Path) -> AsyncIterator[Stage]:
    """A store in `folder`, two workers on it, and nothing left of them afterwards."""
    clock = SystemClock()
    url = f"sqlite:///{folder / 'demo.db'}"
    processes: dict[str, subprocess.Popen[bytes]] = {}
    async with open_store(url) as store:
        try:
            for name in ("w1", "w2"):
                processes[name] = _worker(folder, url, name)
            stage = Stage(folder, WorkflowClient(store, registry), clock, clock.monotonic(), processes)
            await _wait_for_workers(stage)
            stage.started = clock.monotonic()
            stage.tell("two worker processes are up, leases of 2 s")
            yield stage
        finally:
            for process in processes.values():
                if process.poll() is None:
                    process.terminate()
            for process in processes.values():
                await asyncio.to_thread(_reap, process)


async def perform(stage: Stage, show: Callable[[Scene], None]) -> list[Note]:
    """Play it through, showing each scene; answers what the bodies noted."""
    acts = [asyncio.ensure_future(act) for act in (_submit_all(stage), _send_all(stage), _kill(stage))]
    try:
        while True:
            notes = stage.notes
            show(await _scene(stage, notes))
            ended = [act for act in acts if act.done()]
            for act in ended:
                act.result()
            if len(ended) == len(acts) and stage.over(notes):
                stage.tell("all is done")
                show(await _scene(stage, notes))
                return notes
            if stage.seconds > _END_BY:
                stage.tell("gave up waiting: something did not end")
                return notes
            await stage.clock.sleep(int(_GLANCE * SECOND))
    finally:
        for act in acts:
            act.cancel()


def _worker(folder: Path, url: str, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pyrula", "worker", f"{registry_place()}", "--store", url]
    command += ["--worker-id", name, "--lease-seconds", str(LEASE_SECONDS), "--grace", "2"]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env={**os.environ, NOTES: str(folder / "notes")},
            start_new_session=True,
        )


def registry_place() -> str:
    """Where the demonstration's workflows are, as `pyrula worker` takes it."""
    return f"{Note.__module__}:registry"


async def _wait_for_workers(stage: Stage) -> None:
    while len(await stage.client.store.workers()) < len(stage.processes):
        for name, process in stage.processes.items():
            if process.poll() is not None:
                log = (stage.folder / f"{name}.log").read_text(errors="replace")
                raise RuntimeError(
                    f"worker {name} ended with {process.returncode} before it began: {log[-2000:]}"
                )
        if stage.seconds > _START_WITHIN:
            raise RuntimeError(f"the workers did not come up within {_START_WITHIN:g} s")
        await stage.clock.sleep(SECOND // 20)


async def _submit_all(stage: Stage) -> None:
    async def tenant(name: str, count: int, seconds: float, between: float) -> None:
        for account in range(count):
            params = {"tenant_id": name, "account": account, "seconds": seconds}
            stage.runs[await stage.client.submit("sync_account", params)] = name
            await stage.clock.sleep(int(between * SECOND))
        stage.tell(f"{name}: the last of {count} runs of {seconds:g} s submitted")

    await asyncio.gather(*(tenant(name, *load) for name, load in _TENANTS.items()))


async def _send_all(stage: Stage) -> None:
    async def send(workflow: str, field: str, key: str, count: int, between: float) -> None:
        for number in range(count):
            sent = stage.clock.monotonic()
            event = {field: key, "id": f"{key}/{number}", "sent": sent}
            await stage.client.trigger(workflow, event)
            stage.events[workflow][event["id"]] = sent  # type: ignore[index]  # its values are of two types
            await stage.clock.sleep(int(between * SECOND))
        stage.tell(f"{workflow}: the last of {count} events of {key} sent")

    await asyncio.gather(
        *(send("digest", "user_id", key, *load) for key, load in _DIGESTS.items()),
        *(send("rebuild_index", "repository", key, *load) for key, load in _PUSHES.items()),
    )


async def _kill(stage: Stage) -> None:
    """SIGKILL a worker half way, at a moment when it executes something."""
    await stage.clock.sleep(int(_KILL_AT * SECOND))
    process = stage.processes["w1"]
    while not _open_on(stage.notes, process.pid):
        if stage.seconds > _END_BY:
            return
        await stage.clock.sleep(SECOND // 100)
    process.send_signal(signal.SIGKILL)
    await asyncio.to_thread(process.wait)
    stage.killed[process.pid] = stage.clock.monotonic()
    count = len(_open_on(stage.notes, process.pid))
    stage.tell(f"worker w1 killed with SIGKILL while it executed {count} run{'s' if count != 1 else ''}")


def _open_on(notes: list[Note], pid: int) -> set[str]:
    mine = [note for note in notes if note.pid == pid and note.workflow == "sync_account"]
    return {note.run_id for note in mine if note.what == "start"} - {
        note.run_id for note in mine if note.what == "end"
    }


def _reap(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


async def _scene(stage: Stage, notes: list[Note]) -> Scene:
    client = stage.client
    gates = {(gate.kind, gate.key): gate for gate in await client.gates()}
    ended = {note.run_id for note in notes if note.what == "end"}
    tenants = []
    for name, (count, _, _) in _TENANTS.items():
        mine = {run_id for run_id, tenant in stage.runs.items() if tenant == name}
        limit = gates.get(("limit", name))
        executing = 0 if limit is None else limit.in_use
        done = len(mine & ended)
        tenants.append(Tenant(name, max(0, len(mine) - done - executing), executing, done, count))
    batches: dict[str, int] = {}
    for workflow in ("digest", "rebuild_index"):
        batches[workflow] = len({note.run_id for note in notes if note.workflow == workflow})
    workers = [
        (name, "alive" if process.poll() is None else "killed") for name, process in stage.processes.items()
    ]
    return Scene(
        stage.seconds, tenants, gates, await _open_buffers(client), batches, workers, list(stage.told)
    )


async def _open_buffers(client: WorkflowClient) -> list[tuple[str, str, int, float]]:
    at = now()
    return [
        (found["workflow"], found["key"], found["count"], (found["due_at"] - at).total_seconds())
        for found in await client.buffers()
    ]
