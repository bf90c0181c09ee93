"""A permit is one place: held while its poll is open, used while its execution runs, then free again."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from temporalio.worker import SlotPermit

from pyrula.limiters import Limiter


class Place(Protocol):
    """What a permit stands for."""

    def use(self) -> None:
        """Its execution begins."""

    def free(self, used: bool) -> None:
        """Its execution ended (`used`), or it came to nothing."""


class Group(Protocol):
    """One group of pollers that reserve together."""

    name: str
    kind: str

    def place(self) -> Place:
        """What a permit of this group stands for."""

    def allow(self) -> bool:
        """Whether the group may hold one more place at all; under the hub's lock."""


class Permit(SlotPermit):
    """A permit that gives its place back even if the SDK loses it."""

    def __init__(self, place: Place | None, limiter: Limiter) -> None:
        self._place = place
        self._limiter = limiter
        self._used = False

    def use(self) -> None:
        """The task is handed out."""
        if self._place is not None and not self._used:
            self._used = True
            self._place.use()

    def free(self) -> None:
        """The task is done, or there was none."""
        place, self._place = self._place, None
        if place is not None:
            place.free(self._used)

    def __del__(self) -> None:
        # A permit handed over just as the SDK gave up is never released. Finalisers run anywhere, under any
        # lock: leave the work to the next call into the hub.
        if self._place is not None:
            self._limiter.hub.returned.append(partial(self._place.free, self._used))
            self._place = None
