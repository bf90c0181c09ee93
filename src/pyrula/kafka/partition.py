"""A partition that this worker was assigned, and how its share of the flight is counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pyrula.kafka.window import Item, Window

_RECORDS = 500
_BYTES = 8 << 20
_SPAN = 4096


@dataclass(slots=True, eq=False)
class Partition:
    """From its assignment to its revocation. name: what a worker serves to be handed its runs. inherited: open
    runs of an earlier owner whose records have not come yet. adopted: its runs are handed to this worker."""

    number: int
    unit: str
    name: str
    inherited: set[str] = field(default_factory=set)
    window: Window = field(default_factory=Window)
    adopted: bool = False
    paused: bool = False

    @property
    def load(self) -> int:
        """Its records in flight."""
        return len(self.window.open) + len(self.inherited)

    def look_paused(self, most: int) -> bool:
        """Whether it is to be paused: enough was read for now. It goes on at half of that."""
        window, share = self.window, 2 if self.paused else 1
        records, span = max(_RECORDS, 2 * most) // share, max(_SPAN, 2 * most) // share
        return window.waiting >= records or window.span >= span or window.size >= _BYTES // share


def most_open(max_concurrency: int) -> int:
    """How many runs of a partition, the newest, hold all that may be open: no window is wider."""
    return 2 * (max(_SPAN, 2 * max_concurrency) + 10_000)


def adopt(partitions: Sequence[Partition], leaving: int, most: int) -> list[Partition]:
    """Which partitions may be adopted: those whose open runs have room beside what is in flight. Where one has
    more than `most`, as after a deploy with a smaller number, it is adopted alone."""
    in_flight = leaving + sum(each.load for each in partitions if each.adopted)
    taken = []
    for partition in sorted((each for each in partitions if not each.adopted), key=lambda each: each.load):
        if in_flight and in_flight + partition.load > most:
            break
        in_flight += partition.load
        taken.append(partition)
    return taken


def take(partitions: Iterable[Partition], room: int) -> Iterator[tuple[Partition, Item]]:
    """Up to `room` records that may be submitted now, evenly from the partitions that have some."""
    having = list(partitions)
    while room > 0 and having:
        share = max(1, room // len(having))
        for partition in list(having):
            items = list(partition.window.take(min(share, room)))
            if len(items) < share:
                having.remove(partition)
            room -= len(items)
            for item in items:
                yield partition, item
