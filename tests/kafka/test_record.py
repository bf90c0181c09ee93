"""Records as bodies receive them, and those that no run can be made of."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import msgspec
import pytest

from pyrula.errors import KeyFailed, NotJson, PayloadTooLarge
from pyrula.kafka import KafkaRecord, KafkaStream
from pyrula.kafka.record import Raw, read, run_id, unit_key


def _stream(**more) -> KafkaStream:
    return KafkaStream("orders", "sync", "localhost:9092", **more)


def _read(raw: Raw, **more):
    return read("w", _stream(**more), raw)


def test_a_record_says_where_it_came_from_and_what_it_holds():
    raw = Raw(
        3, 17, b"k", b'{"n": 1}', 1_700_000_000_123, (("trace", b"abc"), ("none", None), ("raw", b"\xff"))
    )
    found = _read(raw)
    assert found.record == {
        "topic": "orders",
        "partition": 3,
        "offset": 17,
        "key": "k",
        "value": {"n": 1},
        "timestamp": "2023-11-14T22:13:20.123Z",
        "headers": [["trace", "abc"], ["none", None], ["raw", "/w=="]],
    }
    assert msgspec.json.decode(found.params) == {"record": found.record}
    assert run_id(_stream(), 3, 17) == "sync/orders/3/17"
    assert unit_key(_stream(), 3) == "orders/3"


def test_a_body_may_take_it_as_a_class():
    found = _read(Raw(3, 17, b"k", b"[1]", 1_700_000_000_000, (("a", b"b"),)))
    made = msgspec.convert(found.record, KafkaRecord)
    assert made.timestamp == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert (made.value, made.headers) == ([1], [("a", "b")])


def test_a_tombstone_has_no_value_and_no_time_is_no_time():
    found = _read(Raw(0, 0, None, None))
    assert found.record["value"] is None and found.record["key"] is None and found.record["timestamp"] is None


@pytest.mark.parametrize(
    ("value", "data", "seen"),
    [("text", "größe".encode(), "größe"), ("base64", b"\xff\x00", base64.b64encode(b"\xff\x00").decode())],
)
def test_values_are_read_as_declared(value, data, seen):
    assert _read(Raw(0, 0, None, data), value=value).record["value"] == seen


@pytest.mark.parametrize(
    ("value", "data", "error", "says"),
    [
        ("json", b"{", NotJson, "record.value: not JSON"),
        ("json", b"", NotJson, "record.value: not JSON"),
        ("json", b"[" * 5000 + b"]" * 5000, NotJson, "record.value"),
        ("json", b"\xff", NotJson, "record.value"),
        ("text", b"\xff", NotJson, r'not UTF-8.*declare value="base64"'),
        ("text", b"x" * (1 << 20), PayloadTooLarge, "the cap is 1048576"),
        ("base64", b"x" * 900_000, PayloadTooLarge, "the cap is 1048576"),
    ],
)
def test_a_value_that_no_run_can_be_made_of_is_refused_with_the_reason(value, data, error, says):
    with pytest.raises(error, match=says):
        _read(Raw(0, 0, None, data), value=value)


def test_order_is_by_the_records_key_or_a_field_of_its_value_or_a_function():
    raw = Raw(0, 0, b"k", b'{"user": 7}')
    assert _read(raw).order == "k"
    assert _read(raw, key="user").order == "7"
    assert _read(raw, key=lambda record: record["value"]["user"] % 2).order == "1"
    assert _read(Raw(0, 0, None, b"1")).order is None
    assert _read(Raw(0, 0, b"k", b"1"), key="user").order == ""
    with pytest.raises(KeyFailed, match="raised TypeError"):
        _read(Raw(0, 0, b"k", b"1"), key=lambda record: record["value"]["user"])
