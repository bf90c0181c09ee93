"""A worker in a process of its own: `python -m tests.cases.child URL NOTES OPTIONS`.

What its bodies do is appended to the file NOTES, a line each, so that it outlives any kill.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pyrula.model.outcome import Completed
from pyrula.store.protocol import Handed, TurnRequest
from pyrula.workflows import Debounce, Limit, Rate, Registry, Store, WorkflowClient, open_store, workflow
from pyrula.workflows.worker import Worker

LONG = 3600.0


def note(path: str, *words: object) -> None:
    """Append one line, in one write: O_APPEND keeps the lines of several processes apart."""
    line = " ".join(map(str, (f"{time.time():.6f}", os.getpid(), *words))) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def declare(notes: str, **options: Any) -> Registry:
    """The workflows of these tests. options: max; per_second and burst; none of them: no policy.
    window: of the debounced one."""
    registry = Registry()
    policies: dict[str, Any] = {}
    if "max" in options:
        policies["concurrency"] = Limit("k", options["max"])
    if "per_second" in options:
        policies["rate_limit"] = Rate("k", options["per_second"], options["burst"])

    @workflow(name="w", registry=registry, **policies)
    async def work(ctx: Any, k: str = "k", seconds: float = 0.0, hang: int = 0, step: bool = False) -> int:
        """hang: the process in which it stays for ever."""
        note(notes, "start", ctx.run_id, k)
        if step:
            await ctx.step(note, notes, "step", ctx.run_id, k)
        await asyncio.sleep(LONG if hang == os.getpid() else seconds)
        note(notes, "end", ctx.run_id, k)
        return os.getpid()

    @workflow(name="d", registry=registry, trigger=Debounce("k", options.get("window", 5)))
    async def digest(ctx: Any, key: str, events: list[Any], count: int) -> None:
        note(notes, "start", ctx.run_id, key)

    return registry


class DiesBeforeItHandsIn:
    """A store that kills its process between the return of a body and the write of its result."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def turn(self, request: TurnRequest) -> Handed:
        if any(isinstance(outcome, Completed) for _, outcome in request.outcomes):
            os.kill(os.getpid(), signal.SIGKILL)
        return await self._store.turn(request)


async def serve(url: str, notes: str, options: dict[str, Any]) -> None:
    """Work until SIGTERM."""
    registry = declare(notes, **options)
    opened = open_store(url)
    store: Any = DiesBeforeItHandsIn(opened) if options.get("dies") else opened
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with opened:
        await _work(store, registry, notes, told, options)


async def _work(
    store: Store, registry: Registry, notes: str, told: asyncio.Event, options: dict[str, Any]
) -> None:
    worker = Worker(
        store,
        registry,
        max_concurrent_runs=options.get("places", 100),
        lease_seconds=options.get("lease_seconds", 30),
        limits=options.get("limits"),
    )
    running = asyncio.ensure_future(worker.run())
    while worker.worker_id not in [found["worker_id"] for found in await store.workers()]:  # noqa: ASYNC110 - it sets no event
        await asyncio.sleep(0.005)
    note(notes, "ready", "-", "-")
    waiting = asyncio.ensure_future(told.wait())
    await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    if not running.done():
        await worker.stop(options.get("grace", 0))
    await running


async def submit(url: str, notes: str, options: dict[str, Any]) -> None:
    """Submit runs one by one for some seconds, and note each that was acknowledged."""
    async with open_store(url) as store:
        client = WorkflowClient(store, declare(notes, **options))
        note(notes, "ready", "-", "-")
        until = time.monotonic() + options["submits_for"]
        while time.monotonic() < until:
            run_id = await client.submit("w", {"k": "k"})
            note(notes, "acknowledged", run_id, "k")


if __name__ == "__main__":
    given = json.loads(sys.argv[3])
    Path(sys.argv[2]).touch()
    asyncio.run((submit if "submits_for" in given else serve)(sys.argv[1], sys.argv[2], given))
