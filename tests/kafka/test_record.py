"""Records as bodies receive them, and those that no run can be made of."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import msgspec
import pytest

from pyrula.errors import InvalidPayload, KeyFailed, NotJson, PayloadTooLarge
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
        ("text", b"\xff", NotJson, r'not UTF-8.*declare value="bytes"'),
        ("text", b"x" * (1 << 20), PayloadTooLarge, "the cap is 1048576"),
        ("base64", b"x" * 900_000, PayloadTooLarge, "the cap is 1048576"),
        ("bytes", b"x" * 900_000, PayloadTooLarge, "the cap is 1048576"),
    ],
)
def test_a_value_that_no_run_can_be_made_of_is_refused_with_the_reason(value, data, error, says):
    with pytest.raises(error, match=says):
        _read(Raw(0, 0, None, data), value=value)


def _as_submitted(params: bytes, kind: type):
    return msgspec.convert(msgspec.json.decode(params)["record"], kind)


def test_bytes_are_base64_in_json_and_bytes_again_in_a_record():
    found = _read(Raw(0, 0, b"k", b"\xff\x00"), value="bytes")
    assert (found.record["value"], found.record["encoding"]) == ("/wA=", "base64")
    made = _as_submitted(found.params, KafkaRecord)
    assert (made.value, made.encoding) == (b"\xff\x00", "base64")
    assert msgspec.json.decode(msgspec.json.encode(made), type=KafkaRecord) == made


def test_a_class_of_the_users_own_takes_bytes_by_its_annotation():
    class Own(msgspec.Struct):
        value: bytes

    assert _as_submitted(_read(Raw(0, 0, None, b"\xff"), value="bytes").params, Own).value == b"\xff"


def test_a_tombstone_is_none_and_an_empty_value_is_empty_bytes():
    tombstone = _read(Raw(0, 0, None, None), value="bytes")
    assert "encoding" not in tombstone.record
    assert _as_submitted(tombstone.params, KafkaRecord).value is None
    assert _as_submitted(_read(Raw(0, 0, None, b""), value="bytes").params, KafkaRecord).value == b""


@pytest.mark.parametrize("value", ["json", "text", "base64"])
def test_only_bytes_are_decoded_for_the_body(value):
    made = _as_submitted(_read(Raw(0, 0, None, b'"aGk="'), value=value).params, KafkaRecord)
    assert isinstance(made.value, str) and made.encoding is None


def test_base64_that_is_none_is_refused_before_a_body_sees_it():
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(
            {"topic": "t", "partition": 0, "offset": 0, "value": "/w", "encoding": "base64"}, KafkaRecord
        )


def test_a_function_reads_values_tombstones_too():
    def length(value):
        return None if value is None else {"bytes": len(value)}

    found = _read(Raw(0, 0, b"k", b"\xff\x00"), value=length, key="bytes")
    assert (found.record["value"], found.order) == ({"bytes": 2}, "2")
    assert "encoding" not in found.record
    assert _read(Raw(0, 0, None, None), value=length).record["value"] is None
    assert _read(Raw(0, 0, None, None), value=lambda value: "gone").record["value"] == "gone"
    large = _read(Raw(0, 0, None, b"x" * (2 << 20)), value=length)
    assert large.record["value"] == {"bytes": 2 << 20}  # the cap is on what becomes params


class Mute(Exception):
    def __str__(self):
        raise KeyError("no text")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("not an order"), "ValueError: not an order"),
        (ValueError("lone \udcff"), r"ValueError: lone \?$"),
        (Mute(), "Mute, whose __str__ raised KeyError"),
        (ValueError("x" * 5000), f"ValueError: {'x' * 900}"),
    ],
)
def test_a_value_function_that_raises_is_named_with_its_error(error, told):
    def decode_order(value):
        raise error

    with pytest.raises(
        InvalidPayload, match=rf"^record\.value: value function {__name__}\..*decode_order raised {told}"
    ) as it:
        _read(Raw(0, 0, None, b"x"), value=decode_order)
    assert it.value.code == "invalid_payload"
    assert len(str(it.value)) < 1200


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"x", r"record\.value: bytes b'x', which is not JSON"),
        (float("nan"), r"record\.value: float nan"),
        ({"a": [datetime(2024, 1, 1, tzinfo=UTC)]}, r"record\.value\.a\[0\]: datetime"),
    ],
)
def test_a_value_function_whose_answer_is_no_json_is_named_with_the_place(answer, says):
    def decode_order(value):
        return answer

    with pytest.raises(
        NotJson, match=rf"value function \S+decode_order answered what is no JSON value: {says}"
    ):
        _read(Raw(0, 0, None, b"x"), value=decode_order)


def test_what_a_value_function_answers_is_under_the_cap_of_params():
    with pytest.raises(PayloadTooLarge, match="the cap is 1048576"):
        _read(Raw(0, 0, None, b"x"), value=lambda value: "x" * (1 << 20))


def test_order_is_by_the_records_key_or_a_field_of_its_value_or_a_function():
    raw = Raw(0, 0, b"k", b'{"user": 7}')
    assert _read(raw).order == "k"
    assert _read(raw, key="user").order == "7"
    assert _read(raw, key=lambda record: record["value"]["user"] % 2).order == "1"
    assert _read(Raw(0, 0, None, b"1")).order is None
    assert _read(Raw(0, 0, b"k", b"1"), key="user").order == ""
    with pytest.raises(KeyFailed, match="raised TypeError"):
        _read(Raw(0, 0, b"k", b"1"), key=lambda record: record["value"]["user"])
