"""What limiters tell metrics and logs: frozen values, handed to every listener."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pyrula.limiters.config import OsLimitable

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskCounter:
    """A fixed window ended: `frequency` of `limitable` began in the `time_window` seconds before `at`.

    concurrency: those that ran when it was told; at: µs of the hub's clock.
    """

    level: str
    name: str
    limitable: str
    frequency: int
    concurrency: int
    time_window: float
    at: int


@dataclass(frozen=True, slots=True)
class WaitStarted:
    """A poller of `worker_id` is held back; it looks again after `limiter_delay` seconds at the latest."""

    worker_id: str
    cluster: str
    limitable: str
    limiter_delay: float
    limited_by: tuple[tuple[str, OsLimitable], ...]
    at: int


@dataclass(frozen=True, slots=True)
class WaitStopped:
    """A held-back poller goes on; `limited_by`: the seconds each (level, limitable) held it."""

    worker_id: str
    cluster: str
    limitable: str
    limited_by: Mapping[tuple[str, OsLimitable], float]
    at: int


Event: TypeAlias = TaskCounter | WaitStarted | WaitStopped
Listener: TypeAlias = Callable[[Event], None]


def tell(listeners: tuple[Listener, ...], event: Event) -> None:
    """Hand `event` to every listener; one that raises is logged and harms nobody."""
    for listener in listeners:
        try:
            listener(event)
        except Exception:
            log.exception("a listener of limiter events failed on %s", event)
