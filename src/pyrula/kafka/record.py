"""Records: from bytes of a broker to the params of a run, or to the reason why not."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

import msgspec

from pyrula.errors import InvalidPayload, NotJson
from pyrula.kafka.stream import KafkaStream, ValueFunction
from pyrula.model.payload import MAX_PAYLOAD, check_json, check_size, parse
from pyrula.policies.key import name_of, resolve, text_of

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_REASON: Final = 1000
_encode = msgspec.json.Encoder().encode


class Raw(NamedTuple):
    """A record as it comes from a broker. timestamp: ms since 1970, None if it has none."""

    partition: int
    offset: int
    key: bytes | None = None
    value: bytes | None = None
    timestamp: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.key or b"") + len(self.value or b"")


class KafkaRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as a body receives it: annotate `record: KafkaRecord`, or take it as the dict that it is in
    JSON.

    key: text; base64 if it is no UTF-8; None if it has none. value: as the stream reads values; None for a
    tombstone. encoding: "base64" if `value` is bytes, which JSON holds so; else None. timestamp: an aware
    datetime (ISO 8601 in JSON). headers: (name, text or base64) in their order.
    """

    topic: str
    partition: int
    offset: int
    key: str | None = None
    value: Any = None
    timestamp: datetime | None = None
    headers: list[tuple[str, str | None]] = []
    encoding: Literal["base64"] | None = None

    def __post_init__(self) -> None:
        # The record says it, not the stream: a run that is open when `value=` is changed is read as it was written.
        if self.encoding is not None and isinstance(self.value, str):
            msgspec.structs.force_setattr(self, "value", b64decode(self.value, validate=True))


class Read(NamedTuple):
    """A record that can become a run. params: JSON object. order: records of one order start one after the
    other; None: it waits for none."""

    record: dict[str, Any]
    params: bytes
    order: str | None


def read(workflow: str, stream: KafkaStream, raw: Raw) -> Read:
    """What a run of this record is submitted with.

    Raises `NotJson` for a value that the stream can't read or that its value function makes no JSON of,
    `InvalidPayload` if that raises, `PayloadTooLarge` over the cap of params, `KeyFailed` if the stream's key
    function fails.
    """
    at = None if raw.timestamp is None else _EPOCH + timedelta(milliseconds=raw.timestamp)
    record = {
        "topic": stream.topic,
        "partition": raw.partition,
        "offset": raw.offset,
        "key": _text(raw.key),
        "value": _value(stream, raw.value),
        "timestamp": None if at is None else at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "headers": [[name, _text(value)] for name, value in raw.headers],
    }
    if stream.value == "bytes" and raw.value is not None:
        record["encoding"] = "base64"
    params = _encode({"record": record})
    check_size(params, "record", MAX_PAYLOAD)
    return Read(record, params, _order(workflow, stream, record))


def _value(stream: KafkaStream, value: bytes | None) -> Any:
    if callable(stream.value):
        return _made(stream.value, value)
    if value is None:
        return None
    if stream.value in ("bytes", "base64"):
        return b64encode(value).decode()
    check_size(value, "record.value", MAX_PAYLOAD)
    if stream.value == "json":
        return parse(value, "record.value", None)
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise NotJson(
            f'record.value: not UTF-8: {error.reason} at byte {error.start}; declare value="bytes"',
            path="record.value",
        ) from None


def _made(function: ValueFunction, value: bytes | None) -> object:
    try:
        made = function(value)
    except Exception as error:  # a user's function may raise anything
        raise InvalidPayload(
            f"record.value: value function {name_of(function)} raised {_told(error)}"
        ) from error
    try:
        check_json(made, "record.value")
    except NotJson as error:
        what = f"value function {name_of(function)} answered what is no JSON value: {error}"
        raise NotJson(what, path=error.path) from None
    return made


def _told(error: Exception) -> str:
    """An exception as one text that every store and header can hold, however broken or long its own is."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception as broken:
        text = f"{type(error).__name__}, whose __str__ raised {type(broken).__name__}"
    return text[:_LONGEST_REASON].encode(errors="replace").decode()


def _order(workflow: str, stream: KafkaStream, record: dict[str, Any]) -> str | None:
    if stream.key is None:
        key: str | None = record["key"]
        return key
    if callable(stream.key):
        return resolve(stream.key, record, workflow)
    value = record["value"]
    return text_of(
        value.get(stream.key) if isinstance(value, dict) else None, f"key {stream.key!r}", workflow
    )


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return b64encode(data).decode()


def run_id(stream: KafkaStream, partition: int, offset: int) -> str:
    """The id of a record's run: a record that is delivered again is the same run."""
    return f"{stream.group}/{stream.topic}/{partition}/{offset}"


def unit_key(stream: KafkaStream, partition: int) -> str:
    """What the runs of a partition have in common in the store."""
    return f"{stream.topic}/{partition}"
