"""Burial: dead letters are written one after the other, beside everything else, until the broker has them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from confluent_kafka import KafkaException

from pyrula.clock import SECOND, Clock
from pyrula.kafka.dead import DeadLetters, Reason, Refused
from pyrula.kafka.partition import Partition
from pyrula.kafka.window import Item

_log = logging.getLogger("pyrula.kafka")
_FIRST_RETRY: Final = SECOND // 10
_LONGEST_RETRY: Final = 5 * SECOND


class Letter(NamedTuple):
    """A record that can't be processed, and why."""

    partition: Partition
    item: Item
    reason: Reason


class Burial:
    """The letters of one stream. Of each that is done: `buried(letter, None)`, or the broker's refusal; one of a
    partition that went is left to its next owner."""

    def __init__(
        self,
        dead: DeadLetters,
        clock: Clock,
        is_ours: Callable[[Letter], bool],
        buried: Callable[[Letter, str | None], None],
    ) -> None:
        self.count = 0
        self._dead, self._clock, self._is_ours, self._buried = dead, clock, is_ours, buried
        self._letters: deque[Letter] = deque()
        self._writing: asyncio.Task[None] | None = None

    def add(self, letter: Letter) -> None:
        """Write it soon; once, however often it is added."""
        if letter.item in self:
            return
        self._letters.append(letter)
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write())

    def __contains__(self, item: object) -> bool:
        return any(letter.item is item for letter in self._letters)

    def stop(self) -> None:
        """Write no more."""
        if self._writing is not None:
            self._writing.cancel()

    async def _write(self) -> None:
        pause = _FIRST_RETRY
        while self._letters:
            letter = self._letters[0]
            if self._is_ours(letter):
                try:
                    raw = letter.item.content[0]
                    await self._dead.write(letter.item.run_id, raw, letter.reason)
                    refusal = None
                except Refused as error:
                    refusal = str(error)
                except KafkaException as error:
                    _log.warning("dead letter of %s is sent again: %s", letter.item.run_id, error)
                    await self._clock.sleep(pause)
                    pause = min(2 * pause, _LONGEST_RETRY)
                    continue
                self.count += refusal is None
                self._buried(letter, refusal)
            self._letters.popleft()
        self._writing = None
