"""A leaky bucket spaces polls: each poller of a pool waits an interval after its own last poll."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bucket:
    """`free_at` holds, for each poller of the pool, the earliest µs of its next poll.

    Nothing is saved up: a poller that was idle for an hour polls once, then waits like any other.
    """

    interval: int
    free_at: tuple[int, ...]

    @staticmethod
    def of(interval: int, pool: int) -> Bucket:
        """A pool of `pool` pollers, none of which has polled yet."""
        return Bucket(interval, (0,) * pool)

    def ready(self, now: int) -> int:
        """How many pollers may poll now."""
        return sum(1 for at in self.free_at if at <= now)

    def take(self, now: int, n: int) -> Bucket:
        """The bucket after `n` polls at `now`, made by the pollers that waited longest."""
        marks = sorted(self.free_at)
        return Bucket(self.interval, (*marks[n:], *([now + self.interval] * n)))

    def later(self, granted: int, now: int) -> Bucket:
        """The bucket once a poll that was granted at `granted` leaves at `now`: the gap counts from then."""
        marks = list(self.free_at)
        if granted + self.interval in marks:
            marks[marks.index(granted + self.interval)] = now + self.interval
        return Bucket(self.interval, tuple(marks))

    @property
    def next_at(self) -> int:
        """When the next poller is free, µs."""
        return min(self.free_at)

    def respaced(self, interval: int) -> Bucket:
        """The bucket under another interval: what was waited counts, a shorter one is felt at once."""
        shift = interval - self.interval
        return Bucket(interval, tuple(max(0, at + shift) if at else 0 for at in self.free_at))
