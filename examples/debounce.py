"""Debounce: index a document once nobody has touched it for 5 s, or after a minute. In virtual time."""

import asyncio
from typing import Any

from pyrula.testing import Environment
from pyrula.workflows import Context, Debounce, workflow

env = Environment()


@workflow(trigger=Debounce(key="document", window_seconds=5, max_wait_seconds=60))
async def reindex(ctx: Context, key: str, events: list[dict[str, Any]], count: int) -> None:
    print(f"{env.now:3.0f} s  {key}: {count} changes, the last by {events[-1]['user']}")


async def main() -> None:
    async with env:
        await env.client.trigger("reindex", {"document": "quiet.md", "user": "ann"})
        for number in range(30):  # somebody types all the time
            await env.client.trigger("reindex", {"document": "busy.md", "user": f"u{number}"})
            await env.advance(3)
        await env.advance(60)


asyncio.run(main())
