"""What may be a param, a result or an event, and how it is refused."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula.errors import InvalidPayload, NotJson, PayloadTooLarge
from pyrula.model.payload import MAX_DEPTH, MAX_PAYLOAD, canonical, check_json, decode, digest, encode, parse

NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Word(StrEnum):
    YES = "yes"


@given(JSON)
def test_every_json_value_comes_back_as_it_went_in(value):
    back = decode(encode(value))
    assert back == value
    assert json.dumps(back, sort_keys=True) == json.dumps(
        value, sort_keys=True
    )  # 1, 1.0 and True are told apart


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        b"x",
        bytearray(b"x"),
        (1,),
        {1},
        frozenset({1}),
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, tzinfo=UTC).date(),
        timedelta(1),
        UUID(int=1),
        Decimal("1.5"),
        Colour.RED,
        Level.LOW,
        Word.YES,
        object(),
        1j,
        range(3),
        iter([1]),
        len,
        int,
        2**64,
        -(2**63) - 1,
        10**5000,
        "\ud800",
        "ok \udfff",
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: {"a": [1, {"b": v}]}], ids=["bare", "nested"])
def test_what_is_not_json_is_refused(value, wrap):
    for call in (check_json, encode, canonical, digest):
        with pytest.raises(NotJson) as refused:
            call(wrap(value))
        assert len(str(refused.value)) < 400


def test_a_refusal_names_the_path_the_type_the_value_and_what_to_do():
    params = {"items": [1, 2, 3, {"when": datetime(2026, 1, 1)}]}
    with pytest.raises(NotJson) as refused:
        check_json(params)
    assert refused.value.path == "params.items[3].when"
    assert str(refused.value).startswith("params.items[3].when: datetime datetime.datetime(2026, 1, 1, 0, 0)")
    assert "isoformat" in str(refused.value)
    assert refused.value.code == "not_json"
    assert isinstance(refused.value, InvalidPayload)
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a b": b""}, "event['a b']"),
        ([[b""]], "event[0][0]"),
        ({"a": {1: 2}}, "event.a"),
        ({"\ud800": 1}, "event['\\ud800']"),
    ],
)
def test_a_path_can_be_read_back_as_python(value, path):
    with pytest.raises(NotJson) as refused:
        check_json(value, "event")
    assert refused.value.path == path


@pytest.mark.parametrize("key", [1, None, True, 1.5, b"a", ("a",)])
def test_keys_that_are_not_text_are_refused_and_not_turned_into_text(key):
    with pytest.raises(NotJson, match="str"):
        encode({key: 1})


@pytest.mark.parametrize("value", [OrderedDict(a=1), defaultdict(int, a=1), {"a": 1}])
def test_any_kind_of_dict_is_a_json_object(value):
    assert decode(encode(value)) == {"a": 1}


def test_nesting_is_bounded_and_a_value_that_contains_itself_is_refused():
    value: list = []
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    assert decode(encode(value)) == value
    with pytest.raises(NotJson, match="nested deeper"):
        encode([value])
    loop: dict = {}
    loop["self"] = loop
    with pytest.raises(NotJson, match="contains itself"):
        encode(loop)


def test_the_cap_counts_bytes_of_json_and_is_inclusive():
    fits = "x" * (MAX_PAYLOAD - 2)  # two quotes
    assert len(encode(fits)) == MAX_PAYLOAD
    with pytest.raises(PayloadTooLarge) as refused:
        encode(fits + "x", "event")
    assert (refused.value.size, refused.value.cap) == (MAX_PAYLOAD + 1, MAX_PAYLOAD)
    assert str(refused.value) == (
        "event: 1048577 bytes of JSON, the cap is 1048576; store it elsewhere and pass a reference"
    )
    with pytest.raises(PayloadTooLarge):
        encode("é" * (MAX_PAYLOAD // 2))
    assert len(encode(fits + "xx", cap=None)) == MAX_PAYLOAD + 2


def test_a_strangers_json_is_refused_as_clearly():
    assert parse(b'{"a": [1, 2.5, null, true, "\\u00e9"]}') == {"a": [1, 2.5, None, True, "é"]}
    for data in (
        b"",
        b"{",
        b"{'a': 1}",
        b"NaN",
        b"[Infinity]",
        b"1e999",
        b'"\\ud800"',
        b'"\xff"',
        b"nul",
        b"1 2",
    ):
        with pytest.raises(NotJson, match=r"^body: "):
            parse(data)
    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(NotJson, match="nested deeper"):
            parse(b"[" * depth + b"]" * depth)
    with pytest.raises(NotJson, match="64 bits"):
        parse(b"[1" + b"0" * 30 + b"]")
    with pytest.raises(PayloadTooLarge):
        parse(b"[" + b" " * MAX_PAYLOAD + b"]")


@given(st.dictionaries(TEXT, JSON, max_size=6))
def test_equal_values_have_equal_digests_whatever_their_order(value):
    turned = dict(reversed(value.items()))
    assert canonical(value) == canonical(turned)
    assert digest(value) == digest(turned)
    assert len(digest(value)) == 16


def test_different_values_have_different_digests():
    values = [1, 1.0, True, "1", [1], {"1": 1}, None, "", [], {}, {"a": None}]
    assert len({digest(value) for value in values}) == len(values)


@given(JSON)
def test_canonical_json_is_json(value):
    assert decode(canonical(value)) == value
