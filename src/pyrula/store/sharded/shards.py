"""The shards of a store: each is opened at its first use, and known to be the right one before it is asked anything."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from pyrula.clock import SECOND, Clock
from pyrula.errors import (
    PyrulaError,
    SchemaMismatch,
    ShardMismatch,
    StoreClosed,
    StoreError,
    StoreUnavailable,
)
from pyrula.store.shard.arrive import RouteClosed
from pyrula.store.shard.shard import ShardStore

T = TypeVar("T")
Ask = Callable[[ShardStore], Awaitable[T]]
_log = logging.getLogger("pyrula.store")
PATIENCE_SECONDS: Final = 5.0
"""How long a look at all shards waits for the slowest."""
_OF_LATE: Final = 5 * SECOND
_ALIEN: Final = (StoreClosed, SchemaMismatch, ShardMismatch, RouteClosed)
_FAULTS: Final = (TypeError, ValueError, AttributeError, LookupError, AssertionError)


class Place(NamedTuple):
    """One shard to be. url: as messages show it; there: whether it has been made."""

    store: ShardStore
    url: str
    there: Callable[[], bool]


class Unreached(NamedTuple):
    """A shard that did not answer, and why."""

    shard: int
    error: StoreError


def unavailable(shard: int, error: BaseException) -> StoreError | None:
    """What an error of one shard means for the others: nothing (the shard can't do it now); None if the call itself
    is wrong, or the store was opened wrongly.
    """
    if isinstance(error, (*_ALIEN, *_FAULTS)) or not isinstance(error, Exception):
        return None
    if isinstance(error, PyrulaError) and not isinstance(error, StoreError):
        return None
    told = StoreUnavailable(f"shard {shard}: {type(error).__name__}: {error}")
    told.__cause__ = error
    return told


class Shards:
    """All shards, by number."""

    def __init__(self, places: Sequence[Place], clock: Clock) -> None:
        self.clock = clock
        self._places = places
        self._opened = [False] * len(places)
        self._opening: list[asyncio.Lock | None] = [None] * len(places)
        self._identity: str | None = None
        self._made: set[int] = set()
        self._all_noted = False
        self._failed: dict[int, int] = {}

    @property
    def numbers(self) -> range:
        """The shards' numbers."""
        return range(len(self._places))

    def store(self, shard: int) -> ShardStore:
        """A shard, opened or not."""
        return self._places[shard].store

    # -- opening

    async def connect(self) -> None:
        """Open what can be opened. Raises `ShardMismatch` or `SchemaMismatch` where something is not as it was, and
        `StoreUnavailable` when no shard can be opened.
        """
        reached, unreached = await self.each(lambda store: store.read(lambda tx: None))
        for shard, error in unreached:
            _log.warning("shard %d can't be opened now, the others go on without it: %s", shard, error)
        if not reached:
            raise unreached[0].error

    async def up(self, shard: int) -> ShardStore:
        """A shard, opened, and known to be the one that it should be."""
        if not self._opened[shard]:
            lock = self._opening[shard] = self._opening[shard] or asyncio.Lock()
            async with lock:
                if not self._opened[shard]:
                    await self._open(shard)
        return self._places[shard].store

    async def _open(self, shard: int) -> None:
        store, url, _ = self._places[shard]
        if shard != 0 and self._identity is None:
            await self._learn_from_first()
        if not await self._is_there(shard):
            await self._check_new(shard)
        store.identity = self._identity
        await store.connect()
        row = await store.read(lambda tx: tx.row("connection.identity"))
        assert row is not None
        if self._identity not in (None, row[1]):
            raise ShardMismatch(
                f"{url}: it is shard {row[2]} of another store ({row[1]}, the others are of {self._identity}); open "
                "the store with the URLs that it was made with, in the same order"
            )
        self._identity = row[1]
        self._made |= set(await store.read(lambda tx: [number for (number,) in tx.rows("routes.shards")]))
        self._opened[shard] = True
        if all(self._opened) and not self._all_noted:
            await self._note_all()

    async def _learn_from_first(self) -> None:
        """The first shard is made first, and names the store."""
        try:
            await self.up(0)
        except Exception as error:
            if unavailable(0, error) is None:
                raise

    async def _check_new(self, shard: int) -> None:
        """Whether a shard that is not there may be made. One that was lost would be missed by nobody otherwise."""
        url = self._places[shard].url
        if shard == 0:
            others = [number for number in self.numbers if number and await self._is_there(number)]
            lost = any(self._places[number].there is not _always for number in others)
        elif self._identity is None:
            raise StoreUnavailable(
                f"shard {shard} ({url}) is to be made, and shard 0, which is first, can't be reached"
            )
        else:
            lost = shard in self._made
        if lost:
            raise ShardMismatch(
                f"{url}: there is no store, and shard {shard} of this one was made before; restore it, or correct the "
                "URL: a store is opened with the URLs that it was made with, in the same order"
            )

    async def _is_there(self, shard: int) -> bool:
        there = self._places[shard].there
        return True if there is _always else await asyncio.to_thread(there)

    async def _note_all(self) -> None:
        """All were made: from now on none is made anew."""
        self._all_noted = True
        if len(self._made) == len(self._places):
            return
        rows = [(number,) for number in self.numbers]
        for place in self._places:
            try:
                await place.store.append(lambda tx: tx.many("routes.made", rows))
            except Exception as error:
                if unavailable(place.store.shard, error) is None:
                    raise
                self._all_noted = False

    async def close(self) -> None:
        """Close them all. Raises the first error, once all were tried."""
        ends = await asyncio.gather(*(place.store.close() for place in self._places), return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    # -- asking several

    async def ask(self, shard: int, call: Ask[T]) -> T:
        """Ask one shard."""
        try:
            answer = await call(await self.up(shard))
        except Exception as error:
            if unavailable(shard, error) is not None:
                self._failed[shard] = self.clock.monotonic()
            raise
        self._failed.pop(shard, None)
        return answer

    def well(self) -> list[int]:
        """The shards that have not failed of late; all, if none is left."""
        since = self.clock.monotonic() - _OF_LATE
        well = [shard for shard in self.numbers if self._failed.get(shard, since) <= since]
        return well or list(self.numbers)

    async def each(
        self, call: Ask[T], only: Iterable[int] | None = None, *, patience: float = PATIENCE_SECONDS
    ) -> tuple[dict[int, T], list[Unreached]]:
        """Ask several at once: what those answered that did, and those that did not in time (s). Raises what speaks
        against the call itself.
        """
        numbers = list(self.numbers if only is None else only)
        asked = {number: asyncio.ensure_future(self.ask(number, call)) for number in numbers}
        try:
            await asyncio.wait(asked.values(), timeout=patience) if asked else None
        finally:
            for future in asked.values():
                if not future.done():
                    future.cancel()
        answers: dict[int, T] = {}
        unreached: list[Unreached] = []
        wrong: BaseException | None = None
        for number, future in asked.items():
            if not future.done() or future.cancelled():
                unreached.append(Unreached(number, _too_slow(number, patience)))
                continue
            error = future.exception()
            if error is None:
                answers[number] = future.result()
            elif (told := unavailable(number, error)) is not None:
                unreached.append(Unreached(number, told))
            else:
                wrong = wrong or error
        if wrong is not None:
            raise wrong
        return answers, unreached

    async def every(self, call: Ask[T], only: Iterable[int] | None = None) -> dict[int, T]:
        """Ask several at once. Raises the first error, once all were asked."""
        answers, unreached = await self.each(call, only)
        if unreached:
            raise unreached[0].error
        return answers

    async def some(self, call: Ask[T], only: Iterable[int] | None = None) -> dict[int, T]:
        """Ask several at once, and go by those that answer. Raises if none does."""
        answers, unreached = await self.each(call, only)
        if unreached and not answers:
            raise unreached[0].error
        for shard, error in unreached:
            _log.warning("an answer is without what shard %d holds: %s", shard, error)
        return answers


def _too_slow(shard: int, patience: float) -> StoreUnavailable:
    return StoreUnavailable(f"shard {shard} did not answer within {patience:g} s; call again")


def _always() -> bool:
    return True


always_there = _always
"""`Place.there` of what lives in memory."""


def first(answers: dict[int, Any]) -> Any:
    """Any of the answers: that of the lowest number."""
    return answers[min(answers)]
