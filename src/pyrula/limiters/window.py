"""A fixed window counts what began since its last edge, and forgets it at the next."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ended:
    """A window that is over: `count` began in the `width` µs before `at`."""

    at: int
    width: int
    count: int


@dataclass(slots=True)
class FixedWindow:
    """Edges lie at whole `width`s from `opened`, the counter's creation; an edge belongs to the new window.

    Windows counted from the creation, not from the full minute or the first hit, never let more than twice
    the limit into any span of one width. Times are µs of one monotonic clock. `began` counts up in place.
    """

    opened: int
    width: int
    began: int = 0

    def roll(self, now: int) -> tuple[FixedWindow, Ended | None]:
        """The window `now` lies in, and the one that ended if an edge was passed."""
        passed = (now - self.opened) // self.width
        if passed <= 0:
            return self, None
        ended = Ended(self.opened + self.width, self.width, self.began)
        return FixedWindow(self.opened + passed * self.width, self.width), ended

    def resize(self, width: int, now: int) -> FixedWindow:
        """A window of another width that opens now and keeps the count: a change may not let a burst in."""
        return self if width == self.width else FixedWindow(now, width, self.began)

    @property
    def ends_at(self) -> int:
        """The next edge, µs."""
        return self.opened + self.width
