"""Texts that lead to a shard, and on which shard a run is."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from pyrula.store.shard.placing import owner, place

SHARDS = 3


def key_on(shard: int, number: int = 0) -> str:
    """A key whose runs are on that shard. number: another one."""
    return _find(lambda text: place(text, SHARDS) == shard, "k", number)


def id_of(shard: int, name: str = "run", number: int = 0) -> str:
    """A run id that belongs to that shard."""
    return _find(lambda text: owner(text, SHARDS) == shard, name, number)


def _find(fits: Callable[[str], bool], name: str, number: int) -> str:
    found = (text for n in count() if fits(text := f"{name}{n}"))
    return [next(found) for _ in range(number + 1)][-1]


async def shard_of(store: Any, run_id: str) -> int:
    """Where the run is."""
    for number in range(store.shards):
        if await store.shard(number).get(run_id) is not None:
            return number
    raise LookupError(run_id)


async def how_many(store: Any, run_id: str) -> int:
    """On how many shards there is a run of that id."""
    found = [await store.shard(number).get(run_id) for number in range(store.shards)]
    return sum(run is not None for run in found)
