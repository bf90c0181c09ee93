"""A concurrency counter knows how many executions run, and how many more were promised a place."""

from __future__ import annotations

from typing import NamedTuple


class Concurrency(NamedTuple):
    """`running` execute now; `reserved` places are held for polls on their way.

    Without `reserved` two polls that leave at once would both take the last place.
    `arriving` executions run already but have not been counted in a frequency window yet.
    """

    running: int = 0
    reserved: int = 0
    arriving: int = 0

    def change(self, running: int = 0, reserved: int = 0, arriving: int = 0) -> Concurrency:
        """The counter after the given changes; below zero is a fault of the caller and is refused."""
        after = Concurrency(self.running + running, self.reserved + reserved, self.arriving + arriving)
        if after.running < 0 or after.reserved < 0 or after.arriving < 0:
            raise AssertionError(f"a limiter counter fell below zero: {after}")
        return after
