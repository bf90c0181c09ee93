"""Groups of pollers, and what a place of each stands for."""

from __future__ import annotations

from pyrula.limiters import Limiter
from pyrula.limiters.asking import Group
from pyrula.temporal.executions import Lives


class Pollers(Group):
    """A group of at most `pool` open polls (None: it has no polls), and no permit beyond them.

    The SDK keeps one more permit than it has polls; given out, it would double the rate of the bucket and
    count one too many. An execution in a place of theirs lasts from the hand-over of its task to the answer.
    """

    __slots__ = ("kind", "limiter", "name")

    def __init__(self, limiter: Limiter, name: str, kind: str, pool: int | None) -> None:
        super().__init__(pool)
        self.limiter, self.name, self.kind = limiter, name, kind

    def begin(self) -> object:
        """An execution begins in a place that is held; what `end` takes."""
        self.limiter.begin(self.kind, reserved=True, group=self)
        return self

    def end(self, begun: object | None) -> None:
        """The execution ended; of None there was none, and the place is given back."""
        if begun is None:
            self.limiter.release(self.kind, group=self)
        else:
            self.limiter.end(self.kind)


class ExecutionPollers(Pollers):
    """The pollers of the normal workflow queue, where an execution lives on after its task."""

    __slots__ = ("lives",)

    def __init__(self, limiter: Limiter, name: str, pool: int | None, lives: Lives) -> None:
        super().__init__(limiter, name, "workflow", pool)
        self.lives = lives

    def begin(self) -> object:
        """An execution arrives in a place that is held; what `end` takes."""
        return self.lives.arrive(self)

    def end(self, begun: object | None) -> None:
        """Its task is over; of None there was none, and the place is given back."""
        if begun is None:
            self.limiter.release(self.kind, group=self)
        else:
            self.lives.depart(begun)


class SharedPollers(Pollers):
    """One of two groups that share a limit on workflow tasks: neither takes the last place from the other."""

    __slots__ = ("first", "other")

    def __init__(self, limiter: Limiter, name: str, pool: int, *, first: bool) -> None:
        super().__init__(limiter, name, "workflow", pool)
        self.first = first
        self.other: Group = self

    @staticmethod
    def pair(limiter: Limiter, pool: int) -> tuple[SharedPollers, SharedPollers]:
        """The pollers of the normal queue, who may come first, and those of the sticky one."""
        normal = SharedPollers(limiter, "workflow", pool, first=True)
        sticky = SharedPollers(limiter, "workflow sticky", pool, first=False)
        normal.other, sticky.other = sticky, normal
        return normal, sticky

    def allow(self) -> bool:
        """Whether a poll is free, and one place is left to the other group."""
        if not super().allow():
            return False
        if self.other.held > 0 or (self.first and self.held == 0):
            return True
        return self.limiter.places_left("workflow") != 1
