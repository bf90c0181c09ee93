"""Finding: on which shard a run is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from pyrula.ids import shard_of
from pyrula.store.shard.placing import owner, parent_in
from pyrula.store.shard.shard import ShardStore
from pyrula.store.sharded.shards import Shards, Unreached

T = TypeVar("T")
_REMEMBERED: Final = 10_000


class Finding:
    """Goes by the id where that tells, else asks the shard to which it belongs, or its parent's; in the end all."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._found: dict[str, int] = {}

    def remember(self, run_id: str, shard: int) -> None:
        """It was seen there."""
        if owner(run_id, len(self._shards.numbers)) != shard:
            while len(self._found) >= _REMEMBERED:
                del self._found[next(iter(self._found))]
            self._found[run_id] = shard

    def guess(self, run_id: str) -> int:
        """Where it most likely is."""
        known = self._found.get(run_id)
        return owner(run_id, len(self._shards.numbers)) if known is None else known

    async def ask(self, run_id: str, call: Callable[[ShardStore], Awaitable[T | None]]) -> T | None:
        """What the run's shard answers; None if there is no such run. Raises if it may be where nobody answers."""
        guess = self.guess(run_id)
        answers, _ = await self._shards.each(call, [guess])
        if answers.get(guess) is not None:
            return answers[guess]
        shard = await self.shard(run_id)
        return None if shard is None else await self._shards.ask(shard, call)

    async def shard(self, run_id: str) -> int | None:
        """Where it is, None if nowhere. Raises `StoreUnavailable` if it may be on a shard that can't be reached."""
        likely = [self.guess(run_id)]
        parent = parent_in(run_id)
        home = None if parent is None else await self.shard(parent)
        if home is not None and home not in likely:
            likely.insert(0, home)
        rest = [number for number in self._shards.numbers if number not in likely]
        lost: list[Unreached] = []
        for some in (likely, rest):
            answers, unreached = await self._shards.each(partial(_where, run_id=run_id), some)
            lost += unreached
            for number in some:
                if answers.get(number):
                    found = number if answers[number][0] < 0 else answers[number][0]
                    self.remember(run_id, found)
                    return found
            if not lost and shard_of(run_id) is not None:
                return None  # it would be where it says, or that shard would know where
        if lost:
            raise lost[0].error
        return None

    async def by_shard(self, run_ids: Sequence[str]) -> tuple[dict[int, list[str]], list[str]]:
        """These runs by their shards, and those that are nowhere."""
        names = list(dict.fromkeys(run_ids))
        shards = await asyncio.gather(*(self.shard(run_id) for run_id in names))
        found: dict[int, list[str]] = {}
        for run_id, shard in zip(names, shards, strict=True):
            if shard is not None:
                found.setdefault(shard, []).append(run_id)
        return found, [run_id for run_id, shard in zip(names, shards, strict=True) if shard is None]


async def _where(store: ShardStore, run_id: str) -> list[int]:
    return await store.read(lambda tx: [shard for (shard,) in tx.rows("family.where", run_id)])
