"""A run as users see it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

RunState = Literal["queued", "executing", "parked", "completed", "failed", "cancelled", "expired"]
FINAL: frozenset[str] = frozenset({"completed", "failed", "cancelled", "expired"})


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One submission and what became of it.

    state: `queued` (waits for its start, its due time or a gate), `executing` (claimed), `parked` (sleeps, waits for
    an event or a child, or backs off before a retry), or one of the final four. result: the body's value. error: what
    it ended with, or what its last attempt ended with. attempt: 1, 2, … keys: gate name → key value, as stamped.
    Instants are aware datetimes in UTC.
    """

    run_id: str
    workflow: str
    state: RunState
    params: dict[str, Any]
    result: Any = None
    error: dict[str, Any] | None = None
    attempt: int = 1
    priority: int = 3
    submitted_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    worker_id: str | None = None
    keys: dict[str, str] = msgspec.field(default_factory=dict)
