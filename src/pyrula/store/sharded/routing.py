"""Declaring routes: have every shard take a workflow's gated runs by one routing, or none (store/shard/routes.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from pyrula import ids
from pyrula.errors import ShardMismatch, StoreBusy
from pyrula.store.shard import routes
from pyrula.store.shard.arrive import RouteClosed
from pyrula.store.shard.routes import Route
from pyrula.store.shard.tx import Tx
from pyrula.store.sharded.shards import Shards

T = TypeVar("T")
_TRIES: Final = 10
_PAUSE_SECONDS: Final = 0.02


class Routing:
    """One change of a routing at a time, in this process; others may come in between."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._lock: asyncio.Lock | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def open(self, call: Callable[[], Awaitable[T]]) -> T:
        """`call`, once the routes that it needs are open: they are declared when it finds one closed. Raises
        `ShardMismatch` when they may not change now.
        """
        for _ in range(_TRIES):
            try:
                return await call()
            except RouteClosed as closed:
                wanted = closed.wanted
            await self.declare(wanted)
        raise _busy(wanted[0].workflow)

    async def declare(self, wanted: Sequence[Route], *, reschedules: bool = False) -> None:
        """Have all shards take runs by these routes. Raises `ShardMismatch` while runs placed otherwise are
        unfinished, `StoreUnavailable` unless all shards can be reached.

        What was begun is brought to an end, or taken back, which may take a while; a body that asked for it and has
        to stop does not wait for that.
        """
        declaring = asyncio.ensure_future(self._declare_all(wanted, reschedules))
        self._under_way.add(declaring)
        declaring.add_done_callback(self._under_way.discard)
        await asyncio.shield(declaring)

    async def _declare_all(self, wanted: Sequence[Route], reschedules: bool) -> None:
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            for route in wanted:
                await self._declare(route, reschedules)

    async def is_open(self, wanted: Sequence[Route]) -> list[Route]:
        """Those of these routes that a shard which can be reached doesn't take."""
        known = await self._shards.some(lambda store: store.read(routes.known))
        return [route for route in wanted if not all(routes.is_open(some, route) for some in known.values())]

    async def _declare(self, wanted: Route, reschedules: bool) -> None:
        for _ in range(_TRIES):
            known = await self._shards.every(lambda store: store.read(routes.known))
            if all(routes.is_open(some, wanted) for some in known.values()):
                return
            if await self._change(wanted, reschedules):
                return
            await asyncio.sleep(_PAUSE_SECONDS * ids.chance())  # another process is at it: let it end
        raise _busy(wanted.workflow)

    async def _change(self, wanted: Route, reschedules: bool) -> bool:
        """Close it everywhere, then open it everywhere; False if somebody else has closed it in between."""
        token = ids.store_id()
        closed: list[int] = []
        try:
            for shard in self._shards.numbers:
                closed.append(shard)
                refused = await self._write(
                    shard, partial(routes.close, wanted=wanted, token=token, reschedules=reschedules)
                )
                if refused is not None:
                    raise ShardMismatch(refused)
        except BaseException:
            await self._shards.each(
                lambda store: store.write(partial(routes.reopen, workflow=wanted.workflow, token=token)),
                closed,
            )
            raise
        opened = [
            await self._write(shard, partial(routes.open_, wanted=wanted, token=token))
            for shard in self._shards.numbers
        ]
        return all(opened)

    async def _write(self, shard: int, verb: Callable[[Tx], T]) -> T:
        return await self._shards.ask(shard, lambda store: store.write(verb))


def _busy(workflow: str) -> StoreBusy:
    return StoreBusy(
        f"workflow {workflow!r}: other processes keep changing where its gated runs go; call again"
    )
