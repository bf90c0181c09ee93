"""What a run ended with, as a value or as the error to raise."""

from __future__ import annotations

from typing import Any

from pyrula.errors import RunCancelled, RunEnded, RunExpired, RunFailed, RunNotFound, shown
from pyrula.model.payload import decode

_ENDED: dict[str, tuple[type[RunEnded], str]] = {
    "failed": (RunFailed, "failed"),
    "cancelled": (RunCancelled, "was cancelled"),
    "expired": (RunExpired, "expired: it did not start in time (`expires_in`)"),
}


def ending(run_id: str, state: str, data: bytes | None) -> Any:
    """The result of a finished run. Raises `RunFailed`, `RunCancelled` or `RunExpired`, with what it ended
    with.
    """
    value = None if data is None else decode(data)
    if state == "completed":
        return value
    kind, how = _ENDED[state]
    error = value if isinstance(value, dict) else None
    why = f": {error['type']}: {error['message']}" if error and state == "failed" else ""
    raise kind(f"run {run_id!r} {how}{why}", run_id=run_id, error=error)


def unknown_run(run_id: str) -> RunNotFound:
    """The error for an id that the store does not know."""
    return RunNotFound(
        f"no run {shown(run_id)} is kept in this store; finished runs are swept after its retention"
    )
