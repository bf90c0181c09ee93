"""From a call's arguments to what the store is given. Whatever is wrong is refused here, before anything is
stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import msgspec

from pyrula.errors import InvalidPayload, NotJson, shown
from pyrula.ids import LONGEST
from pyrula.model.duration import Duration, at_least_0_us, positive_us
from pyrula.model.payload import MAX_PAYLOAD, encode
from pyrula.policies.key import storable, text_of
from pyrula.policies.stamp import Stamped, StampedEvent
from pyrula.store.protocol import Submission, TriggerEvent

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LONGEST_WAIT: Final = 1 << 60

T = TypeVar("T")
R = TypeVar("R")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """When a run may start, in µs. run_at: of the wall clock."""

    delay: int | None = None
    run_at: int | None = None
    expires_in: int | None = None


def options(
    delay: Duration | None = None, run_at: datetime | None = None, expires_in: Duration | None = None
) -> Options:
    """The options of a submit. Raises `InvalidPayload` for what can't be kept."""
    if delay is not None and run_at is not None:
        raise InvalidPayload(
            f"submit: delay is {shown(delay)} and run_at is {shown(run_at)}; give one of them"
        )
    return Options(
        delay=None if delay is None else duration("submit: delay", delay) or None,
        run_at=None if run_at is None else instant("submit: run_at", run_at),
        expires_in=None if expires_in is None else positive("submit: expires_in", expires_in),
    )


def submission(
    workflow: str,
    params: bytes,
    stamped: Stamped,
    options: Options,
    run_id: str | None,
    parent: str | None = None,
) -> Submission:
    """One run to be. params: JSON; parent: the run whose child it is. Raises `InvalidPayload` for its id."""
    return Submission(
        workflow=workflow,
        params=params,
        stamped=stamped,
        run_id=None if run_id is None else named("submit: run_id", run_id),
        delay=options.delay,
        run_at=options.run_at,
        expires_in=options.expires_in,
        parent=parent,
    )


def trigger_event(workflow: str, payload: bytes, stamped: StampedEvent, event_id: str | None) -> TriggerEvent:
    """One event for a buffer. payload: JSON. Raises like `submission`."""
    return TriggerEvent(
        workflow=workflow,
        key=stamped.key,
        text=stamped.text,
        payload=payload,
        stamped=stamped.stamped,
        event_id=None if event_id is None else named("trigger: event_id", event_id),
    )


def encoded(value: Mapping[str, Any], at: str) -> bytes:
    """A JSON object as it is stored. Raises `NotJson`, and `PayloadTooLarge` over 1 MiB."""
    return encode(value, at, MAX_PAYLOAD)


def json_object(value: object, at: str) -> dict[str, Any]:
    """`value` as a dict of its own, {} for None. Raises `NotJson` for what is no JSON object."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise NotJson(
            f"{at}: {type(value).__name__} {shown(value)}; pass a dict of names and values", path=at
        )
    return dict(value)


def named(what: str, value: object) -> str:
    """`value`, if it is an id: text of 1 to 500 bytes without control characters. Raises `InvalidPayload`."""
    if not isinstance(value, str):
        raise InvalidPayload(f"{what} is {shown(value)}, a {type(value).__name__}; it must be a str")
    readable = value.isprintable() and len(value.encode(errors="replace")) <= LONGEST
    if not value or not readable:
        raise InvalidPayload(f"{what} is {shown(value)}; it must be printable text of 1 to {LONGEST} bytes")
    return _plain(value)


def text(what: str, value: object) -> str:
    """`value`, if it is text that every store can keep and look for: any str but one with half a surrogate pair or
    a NUL. Raises `InvalidPayload`."""
    if not isinstance(value, str):
        raise InvalidPayload(f"{what} is {shown(value)}, a {type(value).__name__}; it must be a str")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidPayload(
            f"{what} is {shown(value)}; half of a surrogate pair is no text: was it decoded with the right encoding?"
        ) from None
    if "\0" in value:
        raise InvalidPayload(
            f"{what} is {shown(value)}; a NUL is in no name and no id: leave it out, or write it such as %00"
        )
    return _plain(value)


def _plain(value: str) -> str:
    """The text itself, without the class of a caller's own that it came as: drivers and encoders know only str."""
    return str.__str__(value)


def several(what: str, values: Any) -> list[Any]:
    """`values` as a list. Raises `InvalidPayload` for what is one value, such as a str, and not several."""
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | bytearray | Mapping):
        return list(values)
    raise InvalidPayload(f"{what} is {shown(values)}; it must be a list: for one, give a list of one")


def json_objects(what: str, values: object, at: str) -> list[dict[str, Any]]:
    """`several`, each of them a `json_object`."""
    return one_by_one(several(what, values), lambda each: json_object(each, at))


def one_by_one(values: Sequence[T], make: Callable[[T], R]) -> list[R]:
    """`make` of each; what one of several is refused for says which one it is."""
    made = []
    for number, value in enumerate(values):
        try:
            made.append(make(value))
        except InvalidPayload as error:
            if len(values) > 1:
                error.args = (f"item [{number}] of {len(values)}: {error}", *error.args[1:])
            raise
    return made


def one_for_each(what: str, ids: object, many: Sequence[object]) -> Sequence[str | None]:
    """The ids given for `many`; None for each if none were. Raises `InvalidPayload` if they are not as many."""
    if ids is None:
        return [None] * len(many)
    given: list[str | None] = several(what, ids)
    if len(given) != len(many):
        raise InvalidPayload(f"{what}: {len(given)} for {len(many)}; give one for each")
    return given


def page_length(what: str, limit: object, most: int) -> int:
    """`limit`, if it is an int from 1 to `most`. Raises `InvalidPayload`."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= most:
        raise InvalidPayload(f"{what} is {shown(limit)}; it must be an int from 1 to {most}")
    return limit


def stored_key(key: object) -> str | None:
    """The key of a gate or a buffer as stores index it; None stays None: all keys."""
    return None if key is None else storable(text_of(key))


def positive(what: str, value: object) -> int:
    """A duration above 0, in µs. Raises `InvalidPayload`."""
    return _converted(what, value, positive_us)


def duration(what: str, value: object) -> int:
    """A duration of 0 or more, in µs. Raises `InvalidPayload`."""
    return _converted(what, value, at_least_0_us)


def _converted(what: str, value: object, convert: Callable[[object], int]) -> int:
    try:
        return convert(value)
    except ValueError as error:
        raise InvalidPayload(f"{what} is {shown(value)}; it must be {error}") from None


def instant(what: str, value: object) -> int:
    """An aware datetime as wall-clock µs. Raises `InvalidPayload`; for a naive one because it names no
    instant.
    """
    if not isinstance(value, datetime):
        must = "an aware datetime, such as datetime.now(UTC) + timedelta(hours=1)"
        raise InvalidPayload(f"{what} is {shown(value)}; it must be {must}")
    if value.utcoffset() is None:
        raise InvalidPayload(
            f"{what} is {shown(value)}, which has no time zone, so it names no instant: client and workers "
            "may stand in different zones; pass value.astimezone(), or value.replace(tzinfo=UTC) if it is UTC"
        )
    return (value - _EPOCH) // _MICROSECOND


def moment(what: str, value: Duration | datetime | None, wall: int) -> int | None:
    """`value` as µs from now: a duration above 0, or a datetime after `wall`; None stays None. Raises
    `InvalidPayload`.
    """
    if value is None:
        return None
    if not isinstance(value, datetime):
        return positive(what, value)
    left = instant(what, value) - wall
    if left <= 0:
        raise InvalidPayload(f"{what} is {shown(value)}, which has passed; it must be in the future")
    return min(left, _LONGEST_WAIT)
