"""Courier: brings messages from outboxes to the shards they are for. Whoever comes by does it: a turn, or the call that
wrote them. It may bring one twice, which changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pyrula.clock import SECOND
from pyrula.store.shard import arrive, outbox
from pyrula.store.shard.tx import Quiet
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
    """From a shard to an address. again_at: monotonic µs when it is tried again, after a failure or out of grace."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    pause: int = 0
    again_at: int | None = None


class Courier:
    """One for each process."""

    def __init__(self, shards: Shards, routing: Routing) -> None:
        self._shards, self._routing = shards, routing
        self._ways: dict[tuple[int, int], _Way] = {}
        self._brought = 0
        self._rounds: set[asyncio.Task[None]] = set()

    async def deliver(self, source: int, address: int) -> None:
        """Bring all that is addressed there. Raises what keeps it from arriving; it stays in the outbox."""
        way = self._ways.setdefault((source, address), _Way())
        async with way.lock:
            try:
                while await self._bring(source, address):
                    pass
            except BaseException:
                way.pause = min(2 * way.pause or _FIRST_RETRY, _LONGEST_RETRY)
                way.again_at = self._shards.clock.monotonic() + way.pause
                raise
            way.pause, way.again_at = 0, None

    async def _bring(self, source: int, address: int) -> bool:
        head = partial(outbox.head, address=address, limit=_BATCH)
        messages = await self._shards.ask(source, lambda store: store.read(head))
        if not messages:
            return False
        to, by = (address, source) if address >= 0 else (outbox.aside(address), outbox.aside(source))
        receive = partial(arrive.receive, source=by, messages=messages, shard=to)
        await self._routing.open(lambda: self._shards.ask(to, lambda store: store.write(receive)))
        self._brought += len(messages)
        drop = partial(outbox.drop, address=address, last=messages[-1][0])
        await self._shards.ask(source, lambda store: store.write(Quiet(drop)))
        return True

    async def rounds(self, sources: Sequence[int]) -> bool:
        """Deliver what lies in the outboxes of these shards; whether something has arrived. Waits a while for what it
        begins; what was begun earlier is let go on, so that a shard that is slow holds up one turn and not all, and
        what fails is tried again later.
        """
        before = self._brought
        begun: list[asyncio.Task[None]] = []
        found, _ = await self._shards.each(lambda store: store.read(outbox.addressed), sources)
        now = self._shards.clock.monotonic()
        for source, addresses in found.items():
            self._forget(source, {address for address, _ in addresses})
            for address, grace in addresses:
                way = self._ways.setdefault((source, address), _Way())
                if grace:
                    way.again_at = now + grace
                elif not way.lock.locked() and (way.again_at or now) <= now:
                    delivering = asyncio.ensure_future(self._try(source, address))
                    begun.append(delivering)
                    self._rounds.add(delivering)
                    delivering.add_done_callback(self._rounds.discard)
        if begun:
            await asyncio.wait(begun, timeout=_PATIENCE_SECONDS)
        return self._brought != before

    def _forget(self, source: int, addresses: set[int]) -> None:
        """Where nothing is to be brought any more, nothing is to be tried again."""
        for (its_source, address), way in self._ways.items():
            if its_source == source and address not in addresses and not way.lock.locked():
                way.pause, way.again_at = 0, None

    async def _try(self, source: int, address: int) -> None:
        try:
            await self.deliver(source, address)
        except Exception as error:
            to = address if address >= 0 else outbox.aside(address)
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
