"""Courier: brings messages from outboxes to the shards they are for. Whoever comes by does it: a turn, or the call that
wrote them. It may bring one twice, which changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pyrula.clock import SECOND
from pyrula.store.shard import arrive, outbox
from pyrula.store.sharded.routing import Routing
from pyrula.store.sharded.shards import Shards, unavailable

_log = logging.getLogger("pyrula.store")
_BATCH: Final = 64
_PATIENCE_SECONDS: Final = 1.0
"""How long a turn waits for its messages to arrive."""
_FIRST_RETRY: Final = SECOND // 20
_LONGEST_RETRY: Final = 5 * SECOND


@dataclass(slots=True)
class _Way:
    """From one shard to another. again_at: monotonic µs before which it isn't tried, after a failure."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    pause: int = 0
    again_at: int | None = None


class Courier:
    """One for each process."""

    def __init__(self, shards: Shards, routing: Routing) -> None:
        self._shards, self._routing = shards, routing
        self._ways: dict[tuple[int, int], _Way] = {}
        self._rounds: set[asyncio.Task[None]] = set()

    async def deliver(self, source: int, to: int) -> None:
        """Bring all that is addressed to a shard. Raises what keeps it from arriving; it stays in the outbox."""
        way = self._ways.setdefault((source, to), _Way())
        async with way.lock:
            try:
                while await self._bring(source, to):
                    pass
            except BaseException:
                way.pause = min(2 * way.pause or _FIRST_RETRY, _LONGEST_RETRY)
                way.again_at = self._shards.clock.monotonic() + way.pause
                raise
            way.pause, way.again_at = 0, None

    async def _bring(self, source: int, to: int) -> bool:
        messages = await self._shards.ask(
            source, lambda store: store.read(partial(outbox.head, shard=to, limit=_BATCH))
        )
        if not messages:
            return False
        await self._routing.open(
            lambda: self._shards.ask(
                to,
                lambda store: store.write(
                    lambda tx: arrive.receive(tx, source, messages, to),
                ),
            )
        )
        last = messages[-1][0]
        await self._shards.ask(source, lambda store: store.write(partial(outbox.drop, shard=to, last=last)))
        return True

    async def rounds(self, sources: list[int]) -> None:
        """Deliver what lies in the outboxes of these shards. Waits for it a while; what fails is tried again later."""
        found, _ = await self._shards.each(lambda store: store.read(outbox.addressed), sources)
        now = self._shards.clock.monotonic()
        ways = [(source, to) for source, all_to in found.items() for to in all_to]
        due = [way for way in ways if (self._ways.setdefault(way, _Way()).again_at or now) <= now]
        for source, to in due:
            if not self._ways[source, to].lock.locked():
                delivering = asyncio.ensure_future(self._try(source, to))
                self._rounds.add(delivering)
                delivering.add_done_callback(self._rounds.discard)
        if self._rounds:
            await asyncio.wait(self._rounds, timeout=_PATIENCE_SECONDS)

    async def _try(self, source: int, to: int) -> None:
        try:
            await self.deliver(source, to)
        except Exception as error:
            level = logging.WARNING if unavailable(to, error) is not None else logging.ERROR
            _log.log(level, "messages of shard %d to shard %d wait: %s", source, to, error)

    def next_in(self) -> int | None:
        """µs until something that did not arrive is to be tried again."""
        times = [way.again_at for way in self._ways.values() if way.again_at is not None]
        return max(0, min(times) - self._shards.clock.monotonic()) if times else None

    async def close(self) -> None:
        """Bring nothing more."""
        for delivering in self._rounds:
            delivering.cancel()
        await asyncio.gather(*self._rounds, return_exceptions=True)
