"""The store in one schema of a PostgreSQL database: any number of processes and machines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import psycopg

from pyrula.clock import Clock, SystemClock
from pyrula.errors import StoreBusy, StoreClosed, StoreUnavailable
from pyrula.ids import store_id
from pyrula.model.lease import Lease
from pyrula.model.step import Entry
from pyrula.store.postgres.address import address
from pyrula.store.postgres.connection import Connection, Lost, Touched
from pyrula.store.postgres.ends import Ends
from pyrula.store.postgres.enlist import enlist, fetch_on
from pyrula.store.postgres.listener import Listener
from pyrula.store.postgres.migrate import bring_schema_forward, is_there, prepare
from pyrula.store.postgres.pump import Kind, Patience, Pump
from pyrula.store.postgres.records import Records
from pyrula.store.postgres.wake import END, WORK, Sleep
from pyrula.store.protocol import Handed, Registration, Submission, Submitted, TurnRequest
from pyrula.store.shard import turn
from pyrula.store.shard.shard import ShardStore
from pyrula.store.shard.submit import put_stamps
from pyrula.store.shard.tx import Row, Tx
from pyrula.store.statements import statements

T = TypeVar("T")
STATEMENTS: Final = statements("pyrula.store.postgres")
_VERIFY_SECONDS: Final = 1.0
"""How long work that was put beside the lock may lie before everybody is woken for it."""


class PostgresStore(ShardStore):
    """One shard in a schema. clock: None for the server's own. Each kind of transaction has a thread and a
    connection of its own, made at its first use."""

    def __init__(
        self, url: str, *, clock: Clock | None, retention: int, shard: int = 0, shards: int = 1
    ) -> None:
        self._address = address(url)
        super().__init__(clock or SystemClock(), retention, self._address.place, shard)
        self._store_clock, self._shards = clock, shards
        self._pumps: dict[str, Pump] = {}
        self._patience = Patience(self._address.patience)
        self._prepared = threading.Lock()
        self._is_prepared = False
        self._closed = False
        self._listener: Listener | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sleep = Sleep(store_id(), self._address.channel)
        self._verifying: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._records = Records()
        self._looks = Ends(retention)
        self._ends: set[asyncio.Event] = set()
        self._getting_up: asyncio.Task[None] | None = None
        self._beat: Connection | None = None
        self._beat_lock = threading.Lock()

    # -- connection

    async def connect(self) -> None:
        await self.read(lambda tx: None)

    def _connect(self) -> Connection:
        """A new connection to a shard that is as this code expects it."""
        with self._prepared:
            if not self._is_prepared:
                prepare(
                    self._address, self._store_clock, self.identity or store_id(), self.shard, self._shards
                )
                self._is_prepared = True
        return Connection(self._address, self._store_clock)

    async def close(self) -> None:
        self._closed = True
        if self._verifying is not None:
            self._verifying[1].cancel()
        await asyncio.to_thread(self._close)
        self.nudge()  # whoever waits for news learns that there will be none

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

    # -- transactions

    def _pump(self, name: str, kind: Kind) -> Pump:
        if self._closed:
            raise StoreClosed(f"the store {self._address.shown} was closed; open it again with open_store()")
        self._loop = asyncio.get_running_loop()
        pump = self._pumps.get(name)
        if pump is None:
            pump = Pump(
                kind, self._address.shown, self._connect, self._wrote, self._sleep.tell, self._patience
            )
            self._pumps[name] = pump
        return pump

    async def write(self, verb: Callable[[Tx], T]) -> T:
        return await self._pump("write", "locked").run(verb)

    async def submit_in(self, connection: Any, submissions: Sequence[Submission]) -> list[Submitted]:
        fetch = fetch_on(connection)
        # Stamps in a commit of their own: the caller's may take its time, and others may want the same ones now.
        await self.append(lambda tx: put_stamps(tx, [submission.stamped for submission in submissions]))
        names = {"schema": self._address.schema, "channel": self._address.channel}
        statement, existing = (
            STATEMENTS[f"enlist.{name}"].format(**names) for name in ("submit", "existing")
        )
        wall = None if self._store_clock is None else self._store_clock.wall()
        return await enlist(fetch, statement, existing, self.named(submissions), wall)

    async def append(self, verb: Callable[[Tx], T]) -> T:
        return await self._pump("append", "beside").run(verb)

    async def read(self, verb: Callable[[Tx], T]) -> T:
        return await self._pump("read", "read").run(verb)

    async def results(self, run_ids: Sequence[str]) -> list[tuple[str, bytes | None] | None]:
        return await self.read(lambda tx: self._looks.results(tx, run_ids))

    async def view(self, verb: Callable[[Tx], T]) -> T:
        """On a connection of its own: a look at 100,000 gates holds up no short read."""
        return await self._pump("view", "read").run(verb)

    async def _ask(self, block: str) -> list[Row]:
        """One statement by itself."""
        return await self._pump("read", "read").ask(lambda connection: connection.ask(block))

    def heartbeat(self, incarnation: str) -> bool:
        with self._beat_lock:
            if self._closed:
                raise StoreClosed(f"the store {self._address.shown} was closed")
            try:
                if self._beat is None or not self._beat.alive:
                    self._beat = self._connect()
                return bool(self._beat.ask("wake.beat", incarnation, self._beat.wall))
            except (Lost, psycopg.Error) as error:
                raise StoreUnavailable(
                    f"{self._address.shown}: a heartbeat did not get through: {error}; beat again"
                ) from error

    # -- workers

    async def record(self, incarnation: str, lease: Lease, entries: Sequence[Entry]) -> list[Entry]:
        if any(entry.status == "waiting" for entry in entries):
            return await super().record(incarnation, lease, entries)
        # Steps of many bodies: what comes while one commit is under way goes into the next, in one statement each.
        answer: asyncio.Future[list[Entry]] = asyncio.get_running_loop().create_future()
        self._records.put((incarnation, lease, entries), answer)
        if self._records.call():
            self._go_on(self._records.flush(self.append))
        return await answer

    async def register(self, registration: Registration) -> None:
        self._sleep.here.add(registration.incarnation)
        await super().register(registration)

    async def leave(self, incarnation: str) -> None:
        self._sleep.here.discard(incarnation)
        await self.write(self._sleep.rise)  # or it would be woken for what it gives back
        await super().leave(incarnation)
        self.nudge()

    async def turn(self, request: TurnRequest) -> Handed:
        known = request.incarnation in self._hall.serves
        if known and not request.outcomes and self._sleep.may_look(self._pid):
            look = partial(self._sleep.look, request=request, hall=self._hall, broom=self._broom)
            handed = await self._pump("read", "read").ask(look)
            if handed is not None:
                return handed
        handed = await self.write(lambda tx: self._turn(tx, request))
        # Who put work down just before could not see that somebody sleeps.
        if self._sleep.just_lay_down() and await self._ask("wake.waiting"):
            self.nudge()
        return handed

    def _turn(self, tx: Tx, request: TurnRequest) -> Handed:
        handed = turn.turn(tx, request, self._hall, self._broom)
        self._sleep.after_turn(tx, request, handed, self._pid)
        return handed

    # -- nudges

    def nudge(self) -> None:
        super().nudge()
        self._tell_waiters()

    def _tell_waiters(self) -> None:
        for ended in self._ends:
            ended.set()

    def listen(self, nudge: asyncio.Event) -> None:
        super().listen(nudge)
        self._begin_to_listen()

    def _begin_to_listen(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._listener is None and not self._closed:
            where = self._address.listen or self._address.conninfo
            pass_on = STATEMENTS["wake.one"].format(
                schema=self._address.schema, channel=self._address.channel
            )
            self._listener = Listener(where, self._sleep.channels, self._heard, pass_on)

    async def finished(self, run_ids: Sequence[str], timeout: int | None) -> None:
        ended = asyncio.Event()
        self._begin_to_listen()
        self._ends.add(ended)
        try:
            await self._lie_down()
            await self.clock.wait(ended, timeout)
        finally:
            self._ends.discard(ended)

    async def _lie_down(self) -> None:
        """Ask to be told of runs that end. Who waits looks once that is written down: some may have ended before."""
        while self._getting_up is not None:  # or what it takes back would be what is asked for now
            await asyncio.wait((self._getting_up,))
        pid = self._pid
        if pid is None or self._sleep.waits:
            return
        self._sleep.waits = True
        try:
            await self.append(lambda tx: self._sleep.lie_down(tx, pid))
        except BaseException:  # a caller that gives up takes the question back with it: others ask anew
            self._sleep.waits = False
            raise
        finally:
            self._tell_waiters()

    @property
    def _pid(self) -> int | None:
        """The server's process behind the listening connection; None if nobody listens now."""
        return None if self._listener is None else self._listener.pid

    def _heard(self, channel: str | None, text: str) -> threading.Event | None:
        """In the listener's thread. For work: an event that is set once the loop has taken it up."""
        if not self._sleep.concerns(channel, text):
            return None
        taken = threading.Event()
        self._on_loop(lambda: self._take_up(taken, text))
        return taken if text == WORK else None

    def _take_up(self, taken: threading.Event, text: str) -> None:
        taken.set()
        if text == WORK:
            super().nudge()
            return
        self.nudge()
        if text == END and not self._ends and self._sleep.waits and self._getting_up is None:
            self._getting_up = self._go_on(self._get_up())

    async def _get_up(self) -> None:
        """Nobody here waits for runs to end: don't be told of them."""
        try:
            with suppress(
                StoreBusy, StoreClosed, StoreUnavailable
            ):  # still written down, it is told in vain: costs little
                await self.append(self._sleep.get_up)
        finally:
            self._sleep.waits, self._getting_up = False, None

    def _go_on(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _wrote(self, touched: Touched) -> None:
        """In a pump's thread."""
        self._on_loop(lambda: self._after_write(touched))

    def _on_loop(self, call: Callable[[], None]) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(call)

    def _after_write(self, touched: Touched) -> None:
        if "finish.run" in touched:
            self.nudge()
        else:  # no run has ended: whoever waits for that need not look
            super().nudge()
        if "submit.queue" in touched and not self._closed:
            here = asyncio.get_running_loop()
            if (
                self._verifying is None or self._verifying[0] is not here
            ):  # an earlier loop's timer never goes off
                self._verifying = here, here.call_later(_VERIFY_SECONDS, self._verify)

    def _verify(self) -> None:
        self._verifying = None
        self._go_on(self._wake_all_if_work_lies())

    async def _wake_all_if_work_lies(self) -> None:
        """Whoever was woken for a submit may be stopped, or have died over it."""
        with suppress(StoreBusy, StoreClosed, StoreUnavailable):  # whoever opens it next looks
            if await self._ask("wake.waiting"):
                await self._ask("wake.all")


def bring_forward(url: str) -> None:
    """Bring the schema at `url` to this version, if there is one."""
    bring_schema_forward(address(url))


def exists(url: str) -> bool:
    """Whether there is a store at `url`. Raises StoreUnavailable when the database can't be reached."""
    return is_there(address(url))
