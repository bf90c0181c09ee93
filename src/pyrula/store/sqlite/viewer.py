"""Long looks at the file, in a thread with a connection of its own, so that neither loop nor writers wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pyrula.clock import Clock
from pyrula.errors import StoreClosed
from pyrula.store.shard.tx import Tx
from pyrula.store.sqlite.connection import Connection

T = TypeVar("T")


class Viewer:
    """One reader, one look at a time."""

    def __init__(self, path: str, clock: Clock) -> None:
        self._path, self._clock = path, clock
        self._connection: Connection | None = None
        self._thread = ThreadPoolExecutor(1, "pyrula-view")
        self._closed = False

    async def view(self, verb: Callable[[Tx], T]) -> T:
        """Run a verb that only reads, on one snapshot of its own."""
        if self._closed:
            raise StoreClosed(f"the store {self._path} was closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, verb)

    def _read(self, verb: Callable[[Tx], T]) -> T:
        if self._connection is None:
            self._connection = Connection(self._path, self._clock, memory=False)
        return self._connection.read(verb)

    def close(self) -> None:
        """Wait for the look that is under way, and drop those that are not."""
        self._closed = True
        self._thread.submit(self._close)
        self._thread.shutdown(wait=True)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
