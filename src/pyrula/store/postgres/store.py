"""The store in one schema of a PostgreSQL database: any number of processes and machines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import psycopg

from pyrula.clock import Clock, SystemClock
from pyrula.errors import StoreClosed, StoreUnavailable
from pyrula.ids import store_id, token
from pyrula.store.postgres.address import address
from pyrula.store.postgres.connection import AnswerLost, Connection, Lost
from pyrula.store.postgres.listener import Listener
from pyrula.store.postgres.migrate import is_there, prepare
from pyrula.store.postgres.pump import Kind, Pump
from pyrula.store.shard import register
from pyrula.store.shard.shard import ShardStore
from pyrula.store.shard.tx import Tx

T = TypeVar("T")


class PostgresStore(ShardStore):
    """One shard in a schema. clock: None for the server's own. Each kind of transaction has a thread and a
    connection of its own, made at its first use."""

    def __init__(
        self, url: str, *, clock: Clock | None, retention: int, shard: int = 0, shards: int = 1
    ) -> None:
        super().__init__(clock or SystemClock(), retention, shard)
        self._address = address(url)
        self._store_clock, self._shards = clock, shards
        self._pumps: dict[str, Pump] = {}
        self._prepared = threading.Lock()
        self._is_prepared = False
        self._closed = False
        self._listener: Listener | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beat: Connection | None = None
        self._beat_lock = threading.Lock()

    # -- connection

    async def connect(self) -> None:
        await self.read(lambda tx: None)

    def _connect(self) -> Connection:
        """A new connection to a shard that is as this code expects it."""
        with self._prepared:
            if not self._is_prepared:
                prepare(self._address, self._store_clock, store_id(), self.shard, self._shards)
                self._is_prepared = True
        return Connection(self._address, self._store_clock)

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        for pump in self._pumps.values():
            pump.close()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        with self._beat_lock:
            if self._beat is not None:
                self._beat.close()
                self._beat = None

    async def __aenter__(self) -> PostgresStore:
        await self.connect()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # -- transactions

    def _pump(self, name: str, kind: Kind) -> Pump:
        if self._closed:
            raise StoreClosed(f"the store {self._address.shown} was closed; open it again with open_store()")
        pump = self._pumps.get(name)
        if pump is None:
            pump = self._pumps[name] = Pump(kind, self._connect, self._wrote, self._address.shown)
        return pump

    async def write(self, verb: Callable[[Tx], T]) -> T:
        return await self._pump("write", "locked").run(verb)

    async def append(self, verb: Callable[[Tx], T]) -> T:
        return await self._pump("append", "beside").run(verb)

    async def read(self, verb: Callable[[Tx], T]) -> T:
        return await self._pump("read", "read").run(verb)

    async def view(self, verb: Callable[[Tx], T]) -> T:
        """On a connection of its own: a look at 100,000 gates holds up no short read."""
        return await self._pump("view", "read").run(verb)

    def heartbeat(self, incarnation: str) -> bool:
        with self._beat_lock:
            if self._closed:
                raise StoreClosed(f"the store {self._address.shown} was closed")
            try:
                if self._beat is None or not self._beat.alive:
                    self._beat = self._connect()
                (alive,), _ = self._beat.write(
                    [lambda tx: register.heartbeat(tx, incarnation)], token(), locked=False
                )
            except (Lost, AnswerLost, psycopg.OperationalError) as error:
                raise StoreUnavailable(
                    f"{self._address.shown}: a heartbeat did not get through: {error}; beat again"
                ) from error
        return bool(alive)

    # -- nudges

    def listen(self, nudge: asyncio.Event) -> None:
        super().listen(nudge)
        self._loop = asyncio.get_running_loop()
        if self._listener is None and not self._closed:
            self._listener = Listener(
                self._address.listen or self._address.conninfo, [self._address.channel], self._heard
            )

    async def finished(self, run_ids: Sequence[str], timeout: int | None) -> None:
        nudge = asyncio.Event()
        self.listen(nudge)
        try:
            await self.clock.wait(nudge, timeout)
        finally:
            self.unlisten(nudge)

    def _heard(self, channel: str | None) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.nudge)

    def _wrote(self) -> None:
        self._heard(None)


def exists(url: str) -> bool:
    """Whether there is a store at `url`. Raises StoreUnavailable when the database can't be reached."""
    return is_there(address(url))
