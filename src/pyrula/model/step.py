"""One entry of a run's log: what a body asked its context for, and what came of it."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["step", "sleep", "event", "child", "now", "patch"]
Status = Literal["waiting", "done", "error", "timeout"]


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A log entry, identified within its run by `branch` and `number`.

    branch: "" for the body itself; "0", "0.2", … for the tasks it started, in order of creation.
    number: 0, 1, 2, … within the branch.
    name: the step's, event's, workflow's or patch's name; replay compares (kind, name).
    value: JSON of the result; for "error" JSON of an `ErrorValue`; for a waiting child its run id.
    due: store time (µs) at which a sleep ends, or an event's or child's wait times out; None = never.
    order: position in which entries of the run were settled; 0 while waiting. The store assigns it.
    """

    branch: str
    number: int
    kind: Kind
    name: str
    status: Status
    value: bytes | None = None
    due: int | None = None
    order: int = 0


def pauses(key: tuple[str, int]) -> str:
    """The branch in which a step's pauses between tries are logged, numbered by the tries made: no code asks there."""
    path, number = key
    return f"{path}.{-1 - number}" if path else str(-1 - number)


def call_of(branch: str, number: int) -> tuple[str, int]:
    """(branch, number) of the call that an entry belongs to: its own, or of the step whose pause it is."""
    if "-" not in branch:
        return branch, number
    path, _, back = branch.rpartition("-")
    return path.rstrip("."), int(back) - 1


class ErrorValue(msgspec.Struct, frozen=True):
    """An exception as a value: what a step or a run ended with."""

    type: str
    message: str
    code: str | None = None
    traceback: str | None = None
