"""Records: the steps of many bodies, gathered into one verb while the one before it is under way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pyrula.errors import LeaseLost
from pyrula.model.step import Entry
from pyrula.store.shard.record import Ask, record_all
from pyrula.store.shard.tx import Tx

T = TypeVar("T")
Answer = list[Entry] | LeaseLost
_MOST = 500
"""Records of one verb: bounds how much one transaction holds."""


class Records:
    """Filled by the loop, emptied by the store's thread: a deque needs no lock for that."""

    def __init__(self) -> None:
        self._asks: deque[tuple[Ask, asyncio.Future[list[Entry]]]] = deque()
        self._called = False

    def put(self, ask: Ask, answer: asyncio.Future[list[Entry]]) -> None:
        """Have it recorded with whatever else is waiting by then."""
        self._asks.append((ask, answer))

    def call(self) -> bool:
        """Whether somebody has to call `flush`: nobody has who did not begin yet."""
        called, self._called = self._called, True
        return not called

    async def flush(self, append: Callable[[Callable[[Tx], list[Answer]]], Awaitable[list[Answer]]]) -> None:
        """Record what is waiting when the transaction comes to it, and answer."""
        taken: list[tuple[Ask, asyncio.Future[list[Entry]]]] = []

        def verb(tx: Tx) -> list[Answer]:
            self._called = False  # what comes from now on needs another call
            while self._asks and len(taken) < _MOST:
                taken.append(self._asks.popleft())
            return record_all(tx, [ask for ask, _ in taken])

        try:
            answers: list[Any] = await append(verb)
        except (
            asyncio.CancelledError
        ):  # the event loop ends, and with it whoever waits: the next one begins anew
            self._called = False
            self._asks.clear()
            raise
        except Exception as error:
            self._called = False
            answers = [error] * len(taken)
            if not taken:  # it did not come to it: they have waited for nothing
                taken = [self._asks.popleft() for _ in range(len(self._asks))]
                answers = [error] * len(taken)
        for (_, future), answer in zip(taken, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        if self._asks and self.call():
            await self.flush(append)
