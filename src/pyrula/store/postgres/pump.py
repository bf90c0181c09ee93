"""A thread with a connection of its own: what gathers while one transaction is under way goes into the next."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple, TypeVar

import psycopg
from psycopg.pq import ConnStatus

from pyrula.clock import SECOND, SystemClock
from pyrula.errors import StoreBusy, StoreClosed, StoreUnavailable
from pyrula.ids import chance, token
from pyrula.store.postgres.connection import AnswerLost, Connection, Lost, Touched, Verb
from pyrula.store.postgres.failures import failure

_log = logging.getLogger("pyrula.store")
T = TypeVar("T")
Kind = Literal["locked", "beside", "read"]
"""Under the shard's lock; a write beside it; a read."""

_GATHER: Final = 256
"""Verbs in one transaction: bounds how long the lock is held."""
_FIRST_PATIENCE: Final = 10.0
_PATIENCE: Final = 60.0
"""s for which a call tries: until the server was reached once, so that a wrong URL is told soon; and afterwards."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 2.0
_SWITCH_SECONDS: Final = 0.0001
_TELL_EVERY: Final = 5_000
"""µs between rounds of news while commits follow each other."""
_AGAIN: Final = frozenset(
    {
        "40001",  # serialization_failure
        "40P01",  # deadlock_detected
        "55P03",  # lock_not_available: the lock was not free in time
        "57014",  # query_canceled: the statement took too long
        "25P03",  # idle_in_transaction_session_timeout
        "0A000",  # feature_not_supported: a kept plan is of another schema version
    }
)
"""SQLSTATEs after which the same transaction may be tried again."""
_REFUSED: Final = re.compile(
    r"authentication failed|pg_hba\.conf|(role|database) .* does not exist|not permitted to log in|no password supplied"
)
"""What the server says in English to a login of SQLSTATE 28xxx or 3D000; libpq passes the text on, and not the number.
It asks for no language either: options of the URL count only once the login is through."""


class _Switch:
    """Python hands its own lock over every 5 ms; a thread that holds the shard's lock can't wait that long for each of
    its statements beside a loop that never rests. So it is every 0.1 ms while a transaction is open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._usual = 0.0

    @contextmanager
    def quick(self) -> Iterator[None]:
        with self._lock:
            self._open += 1
            if self._open == 1:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual, _SWITCH_SECONDS))
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1
                if self._open == 0:
                    sys.setswitchinterval(self._usual)


_SWITCH: Final = _Switch()
_CLOCK: Final = SystemClock()  # how long to try is about this machine, whatever clock the store goes by


class _Ask(NamedTuple):
    """verb: of a transaction, or if alone, a question to the connection."""

    verb: Callable[[Any], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    alone: bool = False


class Patience:
    """How long the calls of one store go on trying. given: seconds, None for the usual."""

    def __init__(self, given: float | None) -> None:
        self._given = given
        self.reached = False
        """The server has answered, once."""

    @property
    def seconds(self) -> float:
        """For a call that begins to try now."""
        if self._given is not None:
            return self._given
        return _PATIENCE if self.reached else _FIRST_PATIENCE


class Pump:
    """Verbs go in, answers come out. All three are called in the pump's thread: connect makes the connection, and
    again after a loss; wrote hears of each commit before its answers are given; tell passes news on to other
    processes, after the answers and not for each of many commits."""

    def __init__(
        self,
        kind: Kind,
        place: str,
        connect: Callable[[], Connection],
        wrote: Callable[[Touched], None],
        tell: Callable[[Connection, Touched], None],
        patience: Patience,
    ) -> None:
        self._kind, self._place, self._patience = kind, place, patience
        self._is_away = False
        self._connect, self._wrote, self._tell = connect, wrote, tell
        self._news: set[str] = set()
        self._told = 0
        self._connection: Connection | None = None
        self._waiting: deque[_Ask] = deque()
        self._ready = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    async def run(self, verb: Verb[T]) -> T:
        """Run `verb` in the next transaction; its answer, once that is durable.

        Raises what the verb raises, `StoreBusy` or `StoreUnavailable` when it could not be done in time (`Patience`),
        `StoreClosed`.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._enqueue(_Ask(verb, future, loop))
        return await future

    async def ask(self, question: Callable[[Connection], T]) -> T:
        """The answer to a question that is one statement by itself; it takes its place among the verbs."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._enqueue(_Ask(question, future, loop, alone=True))
        return await future

    def _enqueue(self, ask: _Ask) -> None:
        with self._ready:
            if self._closed:
                raise StoreClosed(f"the store {self._place} was closed; open it again with open_store()")
            self._waiting.append(ask)
            if self._thread is None:
                # A daemon: a program that forgets to close the store ends all the same; commits are whole or not
                # at all.
                self._thread = threading.Thread(target=self._pump, name=f"pyrula-{self._kind}", daemon=True)
                self._thread.start()
            self._ready.notify()

    def close(self) -> None:
        """Let the transaction under way end, and the thread with it. What still waits gets `StoreClosed`. Blocks."""
        with self._ready:
            self._closed = True
            self._ready.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    # -- in the thread

    def _pump(self) -> None:
        while True:
            with self._ready:
                while not self._waiting and not self._closed:
                    self._ready.wait()
                batch = [self._waiting.popleft() for _ in range(min(_GATHER, len(self._waiting)))]
                if self._closed:
                    batch += self._waiting
                    self._waiting.clear()
                    break
            live = [ask for ask in batch if not ask.future.cancelled()]
            self._serve([ask for ask in live if not ask.alone])
            for ask in live:
                if ask.alone:
                    self._serve([ask])
            if self._news and (not self._waiting or _CLOCK.monotonic() - self._told > _TELL_EVERY):
                self._pass_news_on()
        if self._connection is not None:
            self._connection.close()
        _answer(
            [(ask, StoreClosed(f"the store {self._place} was closed before this was done")) for ask in batch]
        )

    def _pass_news_on(self) -> None:
        """Wake other processes. A failure is not repeated: whoever was not told looks by itself before long."""
        news, self._told = frozenset(self._news), _CLOCK.monotonic()
        self._news.clear()
        connection = self._connection
        if connection is not None and connection.alive:
            try:
                self._tell(connection, news)
            except (Lost, psycopg.Error) as error:
                _log.warning("%s: nobody was told of news: %s", self._place, error)

    def _serve(self, batch: list[_Ask]) -> None:
        if not batch:
            return
        try:
            answers, touched = self._persist([ask.verb for ask in batch], alone=batch[0].alone)
        except Exception as error:
            if len(batch) == 1:
                told = failure(self._place, error)
                if told is not None:
                    told.__cause__ = error
                _answer([(batch[0], told or error)])
            elif isinstance(error, StoreBusy | StoreUnavailable):
                _answer([(ask, error) for ask in batch])
            else:  # one of the verbs raised: nobody else may suffer for it
                for ask in batch:
                    self._serve([ask])
            return
        if touched:
            self._news |= touched
            self._wrote(touched)
        _answer(list(zip(batch, answers, strict=True)))

    def _persist(self, verbs: list[Callable[[Any], Any]], *, alone: bool) -> tuple[list[Any], Touched]:
        """Run verbs, again and again while the server is away or others are in the way."""
        began, patience = _CLOCK.monotonic(), self._patience.seconds
        pause = _FIRST_PAUSE
        unsure: tuple[bytes, AnswerLost] | None = None
        while True:
            mark = token()
            try:
                connection = self._connected()
                with _SWITCH.quick():
                    if unsure is not None:
                        lost_mark, lost = unsure
                        if connection.committed(lost_mark):
                            return lost.answers, lost.touched
                        unsure = None
                    if alone:
                        return [verb(connection) for verb in verbs], frozenset()
                    if self._kind == "read":
                        return connection.read(verbs), frozenset()
                    return connection.write(verbs, mark, locked=self._kind == "locked")
            except AnswerLost as error:
                unsure, trouble = (mark, error), f"{error}"
            except Lost as error:
                trouble = f"the connection was lost ({error})"
            except psycopg.Error as error:
                if error.sqlstate is not None and error.sqlstate not in _AGAIN and not _is_away(error):
                    raise
                trouble = " ".join(f"{type(error).__name__}: {error}".split())
                if _is_refused(error):
                    raise StoreUnavailable(
                        f"{self._place}: the server refuses this login: {trouble}; see that user, password and "
                        "database in the URL are right, and that pg_hba.conf lets them in"
                    ) from error
            self._pause_or_give_up(pause, began, patience, trouble)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _connected(self) -> Connection:
        if self._connection is not None and not self._connection.alive:
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = self._connect()
            self._patience.reached = True
            if self._is_away:
                self._is_away = False
                _log.info("%s: reached again", self._place)
        return self._connection

    def _pause_or_give_up(self, pause: float, began: int, patience: float, trouble: str) -> None:
        if self._closed:
            raise StoreClosed(f"the store {self._place} was closed before this was done")
        away = self._connection is None or not self._connection.alive
        tried = (_CLOCK.monotonic() - began) / SECOND
        if tried >= patience:
            if not away:
                raise StoreBusy(f"{self._place}: tried for {tried:.1f} s, at last: {trouble}; call again")
            raise StoreUnavailable(
                f"{self._place}: can't be reached, tried for {tried:.1f} s: {trouble}; see that the server runs and "
                "that the URL names it, and call again (?patience= in the URL: for how many seconds to try)"
            )
        if away and not self._is_away:
            self._is_away = True
            _log.warning("%s: can't be reached, trying for up to %g s: %s", self._place, patience, trouble)
        with self._ready:
            self._ready.wait_for(lambda: self._closed, pause * (0.5 + chance()))


def _is_away(error: psycopg.Error) -> bool:
    """Whether it only says that the server is not there now: it restarts, has no connection left, or the pooler before
    it can't log in (08P01)."""
    state = error.sqlstate or ""
    return state.startswith(("08", "57P", "53300"))


def _is_refused(error: psycopg.Error) -> bool:
    """Whether every server that was tried turned the login down: to try again would not help."""
    if error.pgconn is None or error.pgconn.status == ConnStatus.OK:
        return False
    lines = error.pgconn.error_message.decode(errors="replace").strip().splitlines()
    return all(_REFUSED.search(line) for line in lines) and bool(lines)


def _answer(answers: list[tuple[_Ask, Any]]) -> None:
    """Resolve futures in the loops that wait for them."""
    loops = {id(ask.loop): ask.loop for ask, _ in answers}
    for key, loop in loops.items():
        theirs = [(ask.future, answer) for ask, answer in answers if id(ask.loop) == key]
        try:
            loop.call_soon_threadsafe(_resolve, theirs)
        except RuntimeError:
            continue  # that loop is closed: nobody waits any more


def _resolve(answers: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, answer in answers:
        if future.done():
            continue
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)
