"""A worker process on a stream, for tests that kill it. Notes go to a file, one short line each, appended at once."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyrula.kafka import KafkaStream
from pyrula.workflows import Registry, Worker, open_store, workflow
from tests.kafka.broker import QUICK


def declare(settings: dict[str, Any], registry: Registry) -> None:
    notes = os.open(settings["notes"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(*words: object) -> None:
        os.write(notes, (" ".join(map(str, (os.getpid(), *words))) + "\n").encode())

    stream = KafkaStream(
        settings["topic"], settings["group"], settings["servers"], settings["max_concurrency"], config=QUICK
    )

    @workflow(name="orders", registry=registry, stream=stream)
    async def orders(ctx: Any, record: dict[str, Any]) -> int:
        number: int = record["value"]
        line = f"{record['partition']}/{record['key']}"

        async def count() -> int:
            note("step", number, line, record["offset"])
            return number

        note("begin", number, line, record["offset"])
        try:
            await ctx.step(count)
            if number % settings["nap_every"] == 0:
                await ctx.sleep(0.01)
            await asyncio.sleep(0)
            return number
        finally:
            note("end", number, line, record["offset"])


async def main(settings: dict[str, Any]) -> None:
    registry = Registry()
    declare(settings, registry)
    async with open_store(settings["store"]) as store:
        worker = Worker(store, registry, f"worker-{os.getpid()}", lease_seconds=settings["lease_seconds"])
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, lambda: asyncio.ensure_future(worker.stop(5)))
        await worker.run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
