"""A shard that is off, as a server is that can't be reached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyrula.errors import StoreUnavailable
from pyrula.store.sharded.store import ShardedStore

_CALLS = ("write", "append", "read", "view", "turn")


@contextmanager
def off(store: ShardedStore, shard: int) -> Iterator[None]:
    """Every call of a shard fails meanwhile."""
    its = store.shard(shard)

    async def refuse(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("connection refused")

    def refuse_beat(incarnation: str) -> bool:
        raise StoreUnavailable("connection refused")

    for name in _CALLS:
        setattr(its, name, refuse)
    its.heartbeat = refuse_beat  # type: ignore[method-assign]  # for as long as it is off
    try:
        yield
    finally:
        for name in (*_CALLS, "heartbeat"):
            delattr(its, name)
