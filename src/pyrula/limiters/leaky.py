"""A leaky bucket spaces polls: each poller of a pool waits an interval after its own last poll."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Bucket:
    """`free_at` holds, for each poller that is not polling, the earliest µs of its next poll; `open` the same for
    polls that found nothing yet and go on waiting, as a long poll does.

    Nothing is saved up: a poller that was idle for an hour polls once, then waits like any other.
    """

    interval: int
    free_at: tuple[int, ...]
    open: tuple[int, ...] = ()

    @staticmethod
    def of(interval: int, pool: int) -> Bucket:
        """A pool of `pool` pollers, none of which has polled yet."""
        return Bucket(interval, (0,) * pool)

    def ready(self, now: int) -> int:
        """How many pollers may poll now, or are polling and have found nothing."""
        return len(self.open) + sum(1 for at in self.free_at if at <= now)

    def take(self, now: int, n: int) -> Bucket:
        """The bucket once `n` polls go on at `now`: those that are open, then new ones of the pollers that waited
        longest."""
        opened, more = sorted(self.open), max(0, n - len(self.open))
        marks = sorted(self.free_at)
        polls = (*opened[:n], *([now + self.interval] * more))
        return Bucket(self.interval, (*marks[more:], *polls), tuple(opened[n:]))

    def stay_open(self, n: int) -> Bucket:
        """The bucket when the last `n` polls have found nothing, and wait."""
        marks = sorted(self.free_at)
        split = len(marks) - n
        return Bucket(self.interval, tuple(marks[:split]), (*self.open, *marks[split:]))

    def later(self, granted: int, now: int) -> Bucket:
        """The bucket once a poll that was granted at `granted` leaves at `now`: the gap counts from then."""
        marks = list(self.free_at)
        if granted + self.interval in marks:
            marks[marks.index(granted + self.interval)] = now + self.interval
        return replace(self, free_at=tuple(marks))

    @property
    def next_at(self) -> int:
        """When the next poller is free, µs."""
        return min((*self.free_at, *self.open))

    def respaced(self, interval: int) -> Bucket:
        """The bucket under another interval: what was waited counts, a shorter one is felt at once."""
        shift = interval - self.interval

        def moved(marks: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(max(0, at + shift) if at else 0 for at in marks)

        return Bucket(interval, moved(self.free_at), moved(self.open))
