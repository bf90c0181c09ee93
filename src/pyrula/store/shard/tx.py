"""The port between the verbs and a backend: named SQL blocks, run inside one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

Row = tuple[Any, ...]
T = TypeVar("T")


class Tx(Protocol):
    """One transaction. `now` is the store's time and `wall` the wall clock, both read after the lock was held (µs).

    floor_written: the same as in an earlier transaction of this `Tx` if nobody has written a lane, a unit or a gate
    since, here or elsewhere, but for the gates in `gates_written`, which admission empties; None: that is not known.
    """

    now: int
    wall: int

    @property
    def floor_written(self) -> object: ...

    @property
    def gates_written(self) -> set[bytes]: ...

    def rows(self, block: str, *params: Any) -> list[Row]:
        """All rows of one statement."""

    def row(self, block: str, *params: Any) -> Row | None:
        """Its first row."""

    def run(self, block: str, *params: Any) -> int:
        """Run it; the number of rows it changed."""

    def many(self, block: str, params: Sequence[Row]) -> None:
        """Run it for each row of parameters (PostgreSQL: once, with arrays)."""

    def match(self, block: str, params: Iterable[Row]) -> list[Row]:
        """All rows that it returns for all of these parameters, in any order; rows carry their own key."""


class Quiet(Generic[T]):
    """A verb whose commit is no news to anybody: nobody is nudged for it alone."""

    def __init__(self, verb: Callable[[Tx], T]) -> None:
        self._verb = verb

    def __call__(self, tx: Tx) -> T:
        return self._verb(tx)
