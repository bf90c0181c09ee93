"""How many rows the verbs of a store touch, whatever its backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from pyrula.store.shard.tx import Row, Tx


class Counted:
    """A `Tx` that counts: rows read, rows written, and statements that did neither. Nothing is remembered under it."""

    floor_written = None
    gates_written: ClassVar[set[bytes]] = set()

    def __init__(self, tx: Tx, counts: Counts) -> None:
        self._tx, self._counts = tx, counts
        self.now, self.wall = tx.now, tx.wall

    def rows(self, block: str, *params: Any) -> list[Row]:
        found = self._tx.rows(block, *params)
        self._counts.rows += max(1, len(found))
        return found

    def row(self, block: str, *params: Any) -> Row | None:
        self._counts.rows += 1
        return self._tx.row(block, *params)

    def run(self, block: str, *params: Any) -> int:
        changed = self._tx.run(block, *params)
        self._counts.rows += max(1, changed)
        return changed

    def many(self, block: str, params: Sequence[Row]) -> None:
        self._counts.rows += len(params)
        self._tx.many(block, params)

    def match(self, block: str, params: Iterable[Row]) -> list[Row]:
        asked = list(params)
        found = self._tx.match(block, asked)
        self._counts.rows += len(asked) + len(found)
        return found


class Counts:
    """rows: so far."""

    rows = 0


@contextmanager
def count_rows(store: Any) -> Iterator[Counts]:
    """Count what the store's writing verbs touch meanwhile. store: as `Environment` has it."""
    counts = Counts()
    shard = getattr(store, "_store", store)
    write = shard.write

    async def counting(verb: Callable[[Tx], Any]) -> Any:
        return await write(lambda tx: verb(Counted(tx, counts)))

    shard.write = counting
    try:
        yield counts
    finally:
        del shard.write
