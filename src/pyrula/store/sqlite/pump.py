"""Gathers the writes of a loop iteration into one transaction; takes the file's lock without blocking the loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

import apsw

from pyrula.errors import StoreBusy, StoreClosed
from pyrula.ids import chance
from pyrula.store.sqlite.connection import Connection, Verb

T = TypeVar("T")
_GATHER: Final = 256
"""Verbs in one transaction: bounds how long the lock is held."""
_RETRY_SECONDS: Final = 0.002
_GIVE_UP_SECONDS: Final = 30.0


class Pump:
    """The only way to write. `wrote` is called after each commit."""

    def __init__(self, connection: Connection, wrote: Callable[[], None]) -> None:
        self._connection = connection
        self._wrote = wrote
        self._waiting: deque[tuple[Verb[Any], asyncio.Future[Any]]] = deque()
        self._timer: asyncio.Handle | None = None
        self._busy_since: float | None = None

    async def write(self, verb: Verb[T]) -> T:
        """Run `verb` in the next transaction; its answer, once that is durable. Raises what the verb raises,
        and `StoreBusy` when other processes kept the lock for 30 s."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append((verb, future))
        if self._timer is None:
            self._timer = loop.call_soon(self._flush, loop)
        return await future

    def close(self) -> None:
        """Nothing more is written; what still waits gets `StoreClosed`."""
        if self._timer is not None:
            self._timer.cancel()
        while self._waiting:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(StoreClosed("the store was closed before this was written"))

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        batch = [self._waiting.popleft() for _ in range(min(_GATHER, len(self._waiting)))]
        batch = [pair for pair in batch if not pair[1].done()]  # its caller was cancelled before it was begun
        if not batch:
            return
        try:
            answers, written = self._connection.write([verb for verb, _ in batch])
        except apsw.BusyError:
            self._later(loop, batch)
            return
        except Exception as error:
            written = self._one_by_one(batch, error)
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
        self._busy_since = None
        if self._waiting:
            self._timer = loop.call_soon(self._flush, loop)
        if written:
            self._wrote()

    def _one_by_one(self, batch: list[tuple[Verb[Any], asyncio.Future[Any]]], error: Exception) -> bool:
        """One verb of the batch raised: nobody else may suffer for it, so each gets a transaction of its own."""
        written = False
        for verb, future in batch:
            if len(batch) == 1:
                if not future.done():
                    future.set_exception(error)
                break
            try:
                (answer,), wrote = self._connection.write([verb])
            except apsw.BusyError:
                self._waiting.append((verb, future))
            except Exception as its_own:
                if not future.done():
                    future.set_exception(its_own)
            else:
                written = written or wrote
                if not future.done():
                    future.set_result(answer)
        return written

    def _later(
        self, loop: asyncio.AbstractEventLoop, batch: list[tuple[Verb[Any], asyncio.Future[Any]]]
    ) -> None:
        """Another process writes. SQLite's lock has no queue, so come back at a random moment."""
        now = loop.time()
        if self._busy_since is None:
            self._busy_since = now
        if now - self._busy_since > _GIVE_UP_SECONDS:
            self._busy_since = None
            for _, future in batch:
                if not future.done():
                    future.set_exception(
                        StoreBusy(
                            f"other processes kept the file's write lock for {_GIVE_UP_SECONDS:g} s; call again"
                        )
                    )
        else:
            self._waiting.extendleft(reversed(batch))
        if self._waiting:
            self._timer = loop.call_later(_RETRY_SECONDS * chance(), self._flush, loop)
