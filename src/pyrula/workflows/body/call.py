"""One call of a context: what it asks for, and what it is answered."""

from __future__ import annotations

import asyncio
from typing import Any

from pyrula.errors import PyrulaError, RunCancelled, RunExpired, RunFailed, SlotDeadlock, StepFailed
from pyrula.model.payload import decode
from pyrula.model.step import Entry, Kind
from pyrula.workflows.body.branches import Branch

_ENDED = {error.code: error for error in (RunFailed, RunCancelled, RunExpired)}


class Call:
    """A call under way. asked: deliveries that had been made by then; stored: its wait is in the store's log.

    wait: the entry it will have while it waits (sleep, event, child), or None while it executes or is held.
    """

    __slots__ = (
        "abandoned",
        "asked",
        "branch",
        "cause",
        "future",
        "held",
        "key",
        "kind",
        "name",
        "stored",
        "wait",
    )

    def __init__(self, branch: Branch, key: tuple[str, int], kind: Kind, name: str, asked: int) -> None:
        self.branch = branch
        self.key = key
        self.kind = kind
        self.name = name
        self.asked = asked
        self.future: asyncio.Future[Entry | None] | None = None
        self.wait: Entry | None = None
        self.stored = False
        self.abandoned = False
        self.cause: BaseException | None = None

    @property
    def parks(self) -> bool:
        """Whether its branch needs no worker until the store settles it."""
        return self.wait is not None and self.future is not None and not self.future.done()

    @property
    def waits(self) -> bool:
        """Whether its branch can't go on by itself: it parks, or is held until the replay is over."""
        return self.future is not None and not self.future.done()


def answer(call: Call, entry: Entry) -> Any:
    """The value of a settled entry. Raises what it was settled with, marked with its place in the log."""
    if entry.status == "done":
        return None if entry.value is None or entry.value == b"null" else decode(entry.value)
    cause, call.cause = call.cause, None
    if cause is not None:
        raise _error(call, entry) from cause
    raise _error(call, entry)  # in no variable: by its traceback it would point to itself


def _error(call: Call, entry: Entry) -> Exception:
    error: Exception
    if entry.status == "timeout":
        what = f"event {call.name!r}" if call.kind == "event" else f"{call.kind} {call.name!r}"
        error = TimeoutError(f"waited for {what} until it timed out")
    else:
        value = decode(entry.value) if entry.value is not None else {}
        error = _child_error(call, value) if call.kind == "child" else _step_error(call, value)
    mark(error, call.key)
    return error


def _step_error(call: Call, value: dict[str, Any]) -> Exception:
    return StepFailed(
        f"step {call.name!r}: {value.get('type')}: {value.get('message')}", step=call.name, error=value
    )


def _child_error(call: Call, value: dict[str, Any]) -> PyrulaError:
    message = str(value.get("message", ""))
    code = value.get("code")
    if code == SlotDeadlock.code:
        return SlotDeadlock(message)
    kind = _ENDED.get(str(code), RunFailed)
    return kind(message, run_id=str(value.get("run_id", "")), error=value.get("error"))


def mark(error: BaseException, key: tuple[str, int]) -> None:
    """Note on an error which entry it came from: a retry makes that one anew."""
    error.__pyrula_entry__ = key  # type: ignore[attr-defined]  # a mark of ours on anybody's exception


def marks(error: BaseException | None) -> set[tuple[str, int]]:
    """The entries that an error, its causes and the members of a group came from."""
    found: set[tuple[str, int]] = set()
    seen: set[int] = set()
    pending = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        key = getattr(one, "__pyrula_entry__", None)
        if key is not None:
            found.add(key)
        pending += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            pending += one.exceptions
    return found
