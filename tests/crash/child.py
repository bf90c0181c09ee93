"""A worker in a process of its own: `python -m tests.crash.child URL NOTES OPTIONS`."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from typing import Any

from pyrula.policies import Limit
from pyrula.store.open import open_store
from pyrula.workflows.worker import Worker
from pyrula.workflows.workflow import Registry, workflow
from tests.crash.notes import note


def declare(notes: str, most: int = 2) -> Registry:
    """What these processes serve."""
    registry = Registry()

    @workflow(name="work", concurrency=Limit(key="key", max=most), registry=registry)
    async def work(ctx: Any, key: str, seconds: float = 0) -> str:
        note(notes, "start", ctx.run_id, key)
        try:
            await asyncio.sleep(seconds)
        finally:
            note(notes, "end", ctx.run_id, key)
        return key

    @workflow(name="steps", registry=registry)
    async def steps(ctx: Any, n: int) -> int:
        async def one(i: int) -> int:
            note(notes, f"step{i}", ctx.run_id)
            await asyncio.sleep(0.05)
            return i

        return sum([await ctx.step(one, i) for i in range(n)])

    @workflow(name="threaded", registry=registry)
    async def threaded(ctx: Any, seconds: float) -> None:
        def block() -> None:
            note(notes, "start", ctx.run_id)
            time.sleep(seconds)
            note(notes, "end", ctx.run_id)

        await ctx.step(block)

    @workflow(name="noop", registry=registry)
    async def noop(ctx: Any) -> None: ...

    return registry


async def serve(url: str, notes: str, options: dict[str, Any]) -> None:
    """Work until SIGTERM."""
    async with open_store(url) as store:  # type: ignore[attr-defined]  # every store has it; the protocol does not say
        worker = Worker(store, declare(notes), **options)
        stops: list[asyncio.Task[None]] = []
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGTERM, lambda: stops.append(asyncio.ensure_future(worker.stop()))
        )
        note(notes, "ready", worker.worker_id)
        await worker.run()
        await asyncio.gather(*stops)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
