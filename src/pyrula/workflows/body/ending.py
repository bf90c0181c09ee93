"""What becomes of a run when its body has ended: a value for every way to end (pure)."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

import msgspec

from pyrula.errors import (
    ConfigurationError,
    InvalidParams,
    InvalidPayload,
    KeyFailed,
    NoRetry,
    NotJson,
    PayloadTooLarge,
    StepFailed,
)
from pyrula.model.outcome import Completed, Failed, Outcome, Postponed, Retry, SetAside
from pyrula.model.payload import encode
from pyrula.model.step import ErrorValue
from pyrula.policies.retry import RetryStamp
from pyrula.workflows.retry_after import RetryAfter

_FINAL = (ConfigurationError, InvalidPayload, NoRetry)
_FINAL_CODES = frozenset(kind.code for kind in (*_FINAL, NotJson, PayloadTooLarge, InvalidParams, KeyFailed))
_LONGEST_NAME = 200
_LONGEST_MESSAGE = 10_000
_LONGEST_TRACEBACK = 20_000
_MOST_TOLD = 10
"""Members of an exception group whose messages are kept; its traceback has all."""


def returned(value: object) -> Completed:
    """The body returned. Raises `NotJson` for a value that can't be kept; results have no cap."""
    return Completed(b"null" if value is None else encode(value, "result", None))


def is_final(error: BaseException) -> bool:
    """Whether another try could only meet the same error: somebody says so (`NoRetry`), or pyrula refused what it was
    given (`ConfigurationError`, `InvalidPayload` and its kin), here or in a step of an earlier life; also if it is one
    of a group."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_final(one) for one in error.exceptions)
    if isinstance(error, StepFailed):
        return (error.error or {}).get("code") in _FINAL_CODES
    return isinstance(error, _FINAL)


def failed(
    error: bytes, attempt: int, retry: RetryStamp, chance: float, drop: Sequence[tuple[str, int]] = ()
) -> Outcome:
    """The attempt failed: another one, as the stamped policy allows, or the end."""
    if retry.allows(attempt):
        return Retry(error, retry.delay_us(attempt, chance), tuple(drop))
    return Failed(error)


def postponed(error: RetryAfter) -> Postponed:
    """The body asked to be started later."""
    return Postponed(error.delay, error.gate)


def asked_for_later(error: BaseException) -> RetryAfter | None:
    """The RetryAfter that an error is, or holds as a group; the longest of several."""
    if isinstance(error, RetryAfter):
        return error
    if isinstance(error, BaseExceptionGroup):
        found = [one for member in error.exceptions if (one := asked_for_later(member)) is not None]
        return max(found, key=lambda one: one.delay, default=None)
    return None


def unstorable(outcome: Outcome, error: Exception | None) -> Failed:
    """The store could not take how the run ended, for a reason that nobody foresaw."""
    message = f"the run ended as {type(outcome).__name__}, which could not be stored: {type(error).__name__}: {error}"
    return Failed(
        msgspec.json.encode(
            ErrorValue("OutcomeNotStored", _text(message, _LONGEST_MESSAGE), "outcome_not_stored")
        )
    )


def set_aside(message: str, code: str) -> SetAside:
    """A replay met another step than the log holds."""
    reason = ErrorValue("NonDeterministicWorkflow", message, "non_deterministic")
    return SetAside(msgspec.json.encode(reason), code)


def error_value(error: BaseException) -> bytes:
    """JSON of an exception: its type, message, code and traceback, each cut where it is endless."""
    # By its code a replay knows it again, so a class that derives from it has no other here.
    code = NoRetry.code if isinstance(error, NoRetry) else getattr(error, "code", None)
    lines = "".join(traceback.format_exception(error)) if error.__traceback__ is not None else None
    value = ErrorValue(
        _text(type(error).__name__, _LONGEST_NAME),
        _text(_said(error), _LONGEST_MESSAGE),
        _text(code, _LONGEST_NAME) if isinstance(code, str) else None,
        None if lines is None else _text(lines, _LONGEST_TRACEBACK),
    )
    return msgspec.json.encode(value)


def _said(error: BaseException) -> str:
    """Its message; of a group also those of its members, which its own only counts."""
    try:
        said = str(error)
    except Exception as broken:  # the user's __str__
        said = f"<{type(error).__name__}, whose __str__ raised {type(broken).__name__}>"
    if not isinstance(error, BaseExceptionGroup):
        return said
    members = [f"{type(one).__name__}: {_said(one)}" for one in error.exceptions[:_MOST_TOLD]]
    return f"{said}: {'; '.join(members)}"


def _text(text: str, longest: int) -> str:
    """Text that JSON can hold, and not too much of it: its end tells more than its beginning."""
    text = text.encode(errors="replace").decode()
    return text if len(text) <= longest else "… " + text[2 - longest :]
