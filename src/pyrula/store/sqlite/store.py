"""The store in one SQLite file: WAL, synchronous=FULL, one writer at a time, any number of processes."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import apsw

from pyrula.clock import SECOND, Clock
from pyrula.errors import StoreBusy, StoreClosed, StoreError
from pyrula.ids import chance, store_id
from pyrula.store import loops
from pyrula.store.shard import register
from pyrula.store.shard.shard import ShardStore
from pyrula.store.shard.tx import Tx
from pyrula.store.sqlite.connection import Connection, Seen
from pyrula.store.sqlite.pump import Pump
from pyrula.store.sqlite.viewer import Viewer

T = TypeVar("T")
_WATCH_SECONDS = 0.020
"""How often another process's commits are looked for while somebody listens."""
_STEP = SECOND // 10
"""By how much the wall clock has to leave the monotonic one to have been set, and not slewed."""
_OPEN_SECONDS = 30.0
_BEAT_TRIES = 1000
"""How often one heartbeat tries for the lock, 2 ms apart: SQLite's own patience looks every 100 ms only, and
would hardly ever find the lock free between the turns of busy processes."""


class SqliteStore(ShardStore):
    """One shard in a file, or in memory for one process. On one event loop at a time: it follows to the next."""

    def __init__(
        self,
        path: str,
        *,
        clock: Clock,
        retention: int,
        memory: bool = False,
        shard: int = 0,
        shards: int = 1,
    ) -> None:
        # one file for all its connections, wherever a body may have the process go meanwhile
        self._path = path if memory else str(Path(path).resolve())
        super().__init__(clock, retention, self._path, shard)
        self._memory, self._shards = memory, shards
        self._connection: Connection | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop that it lives on, once it was used."""
        self._opening: asyncio.Lock | None = None
        self._closed = False
        self._pump: Pump | None = None
        self._viewer: Viewer | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._seen = Seen()
        self._seen_version: int | None = 0
        self._ahead = clock.wall() - clock.monotonic()
        self._beat: Connection | None = None
        self._beat_lock = threading.Lock()

    # -- connection

    async def connect(self) -> None:
        self._settle()
        if self._connection is not None:
            return
        if self._closed:
            raise StoreClosed(f"the store {self._path} was closed; open it again with open_store()")
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._connection is None:
                connection = await self._prepared()
                self._seen_version = connection.data_version()
                self._pump = Pump(connection, self.nudge)
                self._connection = connection
                self._rewatch()

    def _settle(self) -> None:
        """Live on the running loop: what an earlier one was asked for is over with it, its timers too."""
        here = loops.moved(f"the store {self._path}", self.loop)
        if here is None:
            return
        self.loop, self._opening, self._watch = here, None, None
        if self._connection is not None:
            self._pump = Pump(self._connection, self.nudge)

    async def _prepared(self) -> Connection:
        """A connection to a file with a schema. Already its first statement may find the file locked."""
        connection: Connection | None = None
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _OPEN_SECONDS
        while True:
            try:
                if connection is None:
                    connection = Connection(
                        self._path, self.clock, memory=self._memory, seen=self._seen, makes=True
                    )
                connection.prepare(self.identity or store_id(), self.shard, self._shards)
                return connection
            except apsw.BusyError:  # others open the same new file, or write
                if loop.time() > give_up:
                    raise StoreBusy(
                        f"{self._path} was locked by others for {_OPEN_SECONDS:g} s; try again"
                    ) from None
                await asyncio.sleep(0.01 * chance())

    async def close(self) -> None:
        self._closed = True
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        with self._beat_lock:
            if self._beat is not None:
                self._beat.close()
                self._beat = None
        if self._viewer is not None:
            self._viewer.close()
            self._viewer = None
        if self._pump is not None:
            self._pump.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self.nudge()  # whoever waits for news learns that there will be none

    # -- transactions

    async def write(self, verb: Callable[[Tx], T]) -> T:
        if self._pump is None or self._closed or self.loop is not asyncio.get_running_loop():
            await self.connect()
        assert self._pump is not None
        return await self._pump.write(verb)

    async def read(self, verb: Callable[[Tx], T]) -> T:
        if self._connection is None or self._closed or self.loop is not asyncio.get_running_loop():
            await self.connect()
        assert self._connection is not None
        return self._connection.read(verb)

    async def view(self, verb: Callable[[Tx], T]) -> T:
        """Off the loop, in a thread with a connection of its own: a look at 100,000 gates holds up no run.

        A database in memory has no snapshots for readers beside a writer, so there it is a plain read.
        """
        if self._connection is None or self._closed or self.loop is not asyncio.get_running_loop():
            await self.connect()
        if self._memory:
            return await self.read(verb)
        if self._viewer is None:
            self._viewer = Viewer(self._path, self.clock)
        return await self._viewer.view(verb)

    def heartbeat(self, incarnation: str) -> bool:
        with self._beat_lock:
            if self._closed:
                raise StoreClosed(f"the store {self._path} was closed")
            for _ in range(_BEAT_TRIES):
                try:
                    if self._beat is None:
                        self._beat = Connection(self._path, self.clock, memory=self._memory, seen=self._seen)
                    (alive,), _written = self._beat.write([lambda tx: register.heartbeat(tx, incarnation)])
                    break
                except apsw.BusyError:
                    time.sleep(0.001 + 0.002 * chance())
            else:
                raise StoreBusy(f"{self._path} is locked; beat again")
        if (
            self._clock_was_set() and self.loop is not None
        ):  # of a file, others' commits tell, and so does each beat
            with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits on it any more
                self.loop.call_soon_threadsafe(self.nudge)
        return bool(alive)

    def _clock_was_set(self) -> bool:
        """Whether the wall clock was set, or the machine slept, since last asked: who waits for something that is due
        by the wall has counted from what it was."""
        ahead = self.clock.wall() - self.clock.monotonic()
        was_set = abs(ahead - self._ahead) >= _STEP
        if was_set:
            self._ahead = ahead
        return was_set

    # -- nudges

    def listen(self, nudge: asyncio.Event) -> None:
        self._settle()
        super().listen(nudge)
        self._rewatch()

    async def finished(self, run_ids: Sequence[str], timeout: int | None) -> None:
        nudge = asyncio.Event()
        self.listen(nudge)
        try:
            await self.clock.wait(nudge, timeout)
        finally:
            self.unlisten(nudge)

    def _rewatch(self) -> None:
        """Look for the commits of other processes, as long as somebody listens."""
        if self._memory or self._watch is not None or self._connection is None or not self._nudges:
            return
        self._watch = asyncio.get_running_loop().call_later(_WATCH_SECONDS, self._look)

    def _look(self) -> None:
        self._watch = None
        if self._connection is None:
            return
        version: int | None = None
        with contextlib.suppress(apsw.Error, StoreError):  # whoever is woken meets it, and is told
            self._connection.at_its_path()
            version = self._connection.data_version()
        if version != self._seen_version:
            self._seen_version = version
            self.nudge()
        self._rewatch()
