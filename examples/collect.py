"""Collect: one mail for up to fifty comments, or for what came within a minute. In virtual time."""

import asyncio
from typing import Any

from pyrula.testing import Environment
from pyrula.workflows import Collect, Context, workflow

env = Environment()


@workflow(trigger=Collect(key="user_id", max_events=50, window_seconds=60))
async def digest(ctx: Context, key: str, events: list[dict[str, Any]], count: int) -> None:
    print(f"{env.now:3.0f} s  {key} gets one mail about {count} events")


async def main() -> None:
    async with env:
        for number in range(51):
            answer = await env.client.trigger("digest", {"user_id": "u1", "comment": number})
            if answer is not None:  # the run's id, for the event that completes the batch
                print(f"event {number} completes the batch")
        await env.advance(100)  # the 51st waits for the end of its window


asyncio.run(main())
