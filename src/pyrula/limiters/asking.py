"""Requests for one place that may have to wait, served in the order in which they were made."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyrula.limiters.worker import Limiter


class Group:
    """Pollers that reserve together: the places they hold for polls on their way, and how many they may hold."""

    __slots__ = ("held", "most")

    def __init__(self, most: int | None = None) -> None:
        self.held = 0
        self.most = sys.maxsize if most is None else most

    def allow(self) -> bool:
        """Whether it may hold one more place at all, whatever the limits say; under the hub's lock.

        Never where `held` is at `most`: such a group is not asked.
        """
        return self.held < self.most


class Ask:
    """One request. `granted` turns True exactly once, unless it is withdrawn before."""

    __slots__ = ("granted", "granted_at", "group", "kind", "limiter", "look_at")

    def __init__(self, limiter: Limiter, kind: str, group: Group) -> None:
        self.limiter = limiter
        self.kind = kind
        self.group = group
        self.granted = False
        self.granted_at = 0
        self.look_at = 0
        """When whoever waits should call `Limiter.look`, µs of the hub's clock: nobody else watches it."""

    def told(self) -> None:
        """It was granted after it had waited: called once, on any thread and outside the hub's lock."""

    def sooner(self) -> None:
        """`look_at` may have moved to an earlier time: called on any thread and outside the hub's lock."""
