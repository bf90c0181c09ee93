"""Waiting for what another process, or a browser, does in its own time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def until(is_so: Callable[[], bool | Awaitable[bool]], seconds: float = 30) -> None:
    """Look until it is so. Raises TimeoutError after `seconds`."""
    async with asyncio.timeout(seconds):
        while True:
            found = is_so()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.02)
