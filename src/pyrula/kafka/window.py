"""The window of a partition, pure: which records may be submitted now, and up to where everything is finished.

A record goes from *read* to *open* (its run is submitted and has not ended) to *finished*. A record whose order
(its key) has one before it that is not finished waits, and only it: others pass. What may be committed ends
before the first record that is not finished, however many after it are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Literal

State = Literal["read", "open", "finished"]


@dataclass(slots=True, eq=False)
class Item:
    """One record on its way. content: what it is submitted with, dropped once it is finished; size: its
    bytes."""

    offset: int
    run_id: str
    order: str | None = None
    content: Any = None
    size: int = 0
    state: State = "read"

    def __lt__(self, other: Item) -> bool:
        return self.offset < other.offset


@dataclass(slots=True)
class Window:
    """Of one partition, from its assignment to its revocation. stops: offset → why nothing after it starts."""

    items: dict[int, Item] = field(default_factory=dict)
    open: dict[int, Item] = field(default_factory=dict)
    stops: dict[int, str] = field(default_factory=dict)
    waiting: int = 0
    """Records that are not open yet."""
    size: int = 0
    """Bytes of the records that are not finished."""
    next: int | None = None
    """After the last record that was read."""
    _free: list[Item] = field(default_factory=list)
    _firsts: dict[str, Item] = field(default_factory=dict)
    """Per order that has an unfinished record: the one whose turn it is."""
    _lines: dict[str, deque[Item]] = field(default_factory=dict)
    """Per order: those that wait behind its first."""

    def refuse(self, item: Item) -> None:
        """Take in the next record, which can't become a run: it is to be finished, or stopped at."""
        self.items[item.offset] = item
        self.next = item.offset + 1
        self.size += item.size
        self.waiting += 1

    def read(self, item: Item, *, is_open: bool = False) -> None:
        """Take in the next record. is_open: its run was submitted by an earlier owner and has not ended."""
        self.items[item.offset] = item
        self.next = item.offset + 1
        self.size += item.size
        if is_open:
            self._open(item)
        else:
            self.waiting += 1
        if item.order is not None and self._firsts.setdefault(item.order, item) is not item:
            self._lines.setdefault(item.order, deque()).append(item)
        elif not is_open:
            heappush(self._free, item)

    def take(self, most: int) -> Iterator[Item]:
        """Up to `most` records that may be submitted now, the oldest first; each is open from now on."""
        last = min(self.stops) if self.stops else None
        while most > 0 and self._free and (last is None or self._free[0].offset < last):
            item = heappop(self._free)
            if item.state == "read":
                self.waiting -= 1
                self._open(item)
                most -= 1
                yield item

    def finish(self, item: Item) -> None:
        """A record is done with: the next of its order is free, and the prefix may have grown."""
        if item.state == "finished":
            return
        if item.state == "read":
            self.waiting -= 1
        item.state = "finished"
        item.content = None
        self.size -= item.size
        self.open.pop(item.offset, None)
        self.stops.pop(item.offset, None)
        self._free_next(item)
        while self.items:
            first = next(iter(self.items.values()))
            if first.state != "finished":
                break
            del self.items[first.offset]

    def stop(self, item: Item, why: str) -> None:
        """Start nothing after this record, which is not in flight any more; those before it go on."""
        self.open.pop(item.offset, None)
        self.stops[item.offset] = why

    def go_on(self, item: Item) -> None:
        """The run at which it stopped was taken up again."""
        self.stops.pop(item.offset, None)
        self._open(item)

    @property
    def committable(self) -> int | None:
        """The offset to commit: that of the first record that is not finished; None: nothing was read yet."""
        return next(iter(self.items), self.next)

    @property
    def span(self) -> int:
        """Records from the first unfinished one to the last that was read."""
        return len(self.items)

    def _open(self, item: Item) -> None:
        item.state = "open"
        self.open[item.offset] = item

    def _free_next(self, item: Item) -> None:
        """Pass its order's turn on, if the turn was its own."""
        if item.order is None:
            return
        line = self._lines.get(item.order)
        if (
            self._firsts[item.order] is not item
        ):  # it was open before its turn came: nobody waits for it alone
            assert line is not None
            line.remove(item)
        elif line:
            following = self._firsts[item.order] = line.popleft()
            if following.state == "read":
                heappush(self._free, following)
        else:
            del self._firsts[item.order]
            self._lines.pop(item.order, None)
