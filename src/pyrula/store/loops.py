"""Which event loop something lives on: a script may run one after the other, never two at once."""

from __future__ import annotations

import asyncio


def moved(what: str, before: asyncio.AbstractEventLoop | None) -> asyncio.AbstractEventLoop | None:
    """The running loop if it is another than `before`, else None. Raises RuntimeError, naming `what`, while
    `before` still runs in another thread."""
    here = asyncio.get_running_loop()
    if here is before:
        return None
    if before is not None and before.is_running():
        raise RuntimeError(
            f"{what} is in use on another event loop, which runs in another thread; open the store once for each "
            "loop, or call client.blocking from here"
        )
    return here
