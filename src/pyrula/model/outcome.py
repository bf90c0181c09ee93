"""What became of a claimed run: the values that a worker hands in."""

from __future__ import annotations

import msgspec

from pyrula.model.step import Entry


class Outcome(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Every outcome gives the run's slots back, but for those that `hold="run"` keeps."""


class Completed(Outcome, frozen=True, tag=True, gc=False):
    """The body returned. result: JSON."""

    result: bytes


class Failed(Outcome, frozen=True, tag=True, gc=False):
    """The body raised and no attempt is left. error: JSON of an `ErrorValue`."""

    error: bytes


class Cancelled(Outcome, frozen=True, tag=True, gc=False):
    """The body was cancelled, and it and its threads have stopped."""


class Retry(Outcome, frozen=True, tag=True, gc=False):
    """The attempt failed; another starts after `delay` µs. drop: (branch, number) of the failed step's entries."""

    error: bytes
    delay: int
    drop: tuple[tuple[str, int], ...] = ()


class Postponed(Outcome, frozen=True, tag=True, gc=False):
    """The body raised RetryAfter: close gate `gate` (by name; None = rate gate, else limit gate, else the run alone)
    of this run for its key until `delay` µs from now."""

    delay: int
    gate: str | None = None


class Parked(Outcome, frozen=True, tag=True, gc=False):
    """Every branch waits. entries: the waits (status "waiting") and whatever else is not in the log yet."""

    entries: tuple[Entry, ...]


class Released(Outcome, frozen=True, tag=True, gc=False):
    """The worker stops, or cannot go on with it: hand the run back to the head of its lane, at no cost."""


class SetAside(Outcome, frozen=True, tag=True, gc=False):
    """A replay met another step than the log holds. reason: JSON of an `ErrorValue` naming both steps.
    code: digest of the body's code that met it; a worker whose code differs takes the run up again."""

    reason: bytes
    code: str
