"""Requests for one place that may have to wait, served in the order in which they were made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyrula.limiters.worker import Limiter


@dataclass(eq=False, slots=True)
class Ask:
    """One request. `granted` turns True exactly once, unless it is withdrawn before.

    tell: called from any thread and outside the hub's lock, once with True when granted, and with False when
    `look_at` may have moved to an earlier time. Never called for an ask that was granted at once.
    allow: a further condition of whoever asks, judged under the hub's lock.
    group: the pollers that ask; `Limiter.places` tells how many places each group holds.
    """

    limiter: Limiter
    kind: str
    tell: Callable[[bool], None]
    allow: Callable[[], bool] | None = None
    group: str = ""
    granted: bool = False
    granted_at: int = 0
    look_at: int = 0
    """When whoever waits should call `Limiter.look`, µs of the hub's clock: nobody else watches it."""
