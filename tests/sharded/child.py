"""A process that dies at a chosen point: `python -m tests.sharded.child URLS NOTES POINT`.

POINT: where it sends itself SIGKILL: `noted` (a chosen id is noted at its owner, its run is nowhere yet), `ended` (a
child's end is committed where it is, its parent not told), `told` (the parent was told, the message not dropped),
`sent` (a child is on its way, noted by its parent's shard); or `never`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyrula.policies import Limit
from pyrula.store.open import open_store
from pyrula.store.shard import arrive, outbox
from pyrula.store.sharded.courier import Courier
from pyrula.workflows import WorkflowClient
from pyrula.workflows.worker import Worker
from pyrula.workflows.workflow import Registry, workflow
from tests.sharded.places import id_of, key_on

CHOSEN = id_of(0, "chosen")


def declare(notes: str) -> Registry:
    """A parent on shard 0, whose child is on shard 1."""
    registry = Registry()

    @workflow(name="top", concurrency=Limit("k", max=5), registry=registry)
    async def top(ctx: Any, k: str) -> int:
        return 1 + int(await ctx.run_child("leaf", {"k": key_on(1)}))

    @workflow(name="leaf", concurrency=Limit("k", max=5), registry=registry)
    async def leaf(ctx: Any, k: str) -> int:
        note(notes, ctx.run_id)
        return 1

    return registry


def note(notes: str, run_id: str) -> None:
    """A body ran."""
    with Path(notes).open("a") as file:
        file.write(f"{run_id}\n")


def die(*_: Any, **__: Any) -> Any:
    """Be gone."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str) -> None:
    """Have it happen there."""
    if point == "noted":
        arrive.come = die
    elif point in ("sent", "ended"):
        deliver = Courier.deliver

        async def delivering(self: Courier, source: int, address: int) -> None:
            if (source, address) == ((0, 1) if point == "sent" else (1, 0)):
                die()
            await deliver(self, source, address)

        Courier.deliver = delivering  # type: ignore[method-assign]  # it dies there
    elif point == "told":
        drop = outbox.drop

        def dropping(tx: Any, address: int, last: int) -> None:
            if address == 0:
                die()
            drop(tx, address, last)

        outbox.drop = dropping


async def live(urls: str, notes: str, point: str) -> None:
    """Do what leads to that point."""
    arm(point)
    registry = declare(notes)
    async with open_store(urls) as store:
        client = WorkflowClient(store, registry)
        if point == "noted":
            await client.submit("leaf", {"k": key_on(2)}, run_id=CHOSEN)
            return
        async with Worker(store, registry, lease_seconds=1):
            await client.execute("top", {"k": key_on(0)}, run_id="top", timeout=20)


if __name__ == "__main__":
    asyncio.run(live(*sys.argv[1:4]))
