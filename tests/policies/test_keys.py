"""Key values: what they are, and in which form a store keeps them. (Field reports 118, 121, 123, 39.)"""

from __future__ import annotations

import unicodedata
from datetime import date
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula.errors import ConfigurationError, KeyFailed, KeyNeedsCode
from pyrula.policies.key import KeyElsewhere, check_key, resolve, storable, text_of

ANY_TEXT = st.text(st.characters())  # surrogates and control characters included
LONG_TEXT = st.builds(lambda text, times: text * times, ANY_TEXT, st.integers(1, 40))


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({}, ""),
        ({"k": None}, ""),
        ({"k": ""}, ""),
        ({"k": "a"}, "a"),
        ({"k": 1}, "1"),
        ({"k": "1"}, "1"),
        ({"k": 1.0}, "1.0"),
        ({"k": True}, "True"),
        ({"k": False}, "False"),
        ({"k": {"b": 1, "a": [1, None]}}, '{"a":[1,null],"b":1}'),
        ({"k": []}, "[]"),
        ({"k": " A b\n"}, " A b\n"),
    ],
)
def test_a_parameter_name_takes_the_parameters_text(params, text):
    assert resolve("k", params) == text


def test_a_missing_parameter_none_and_empty_text_share_one_bucket():
    assert {resolve("tenant_id", params) for params in ({}, {"tenant_id": None}, {"tenant_id": ""})} == {""}


def test_no_key_is_one_bucket_for_all():
    assert resolve(None, {"a": 1}) == ""


def test_a_function_of_the_params_computes_a_key():
    assert resolve(lambda p: f"{p['org']}:{p['region']}", {"org": "o", "region": "r"}) == "o:r"
    assert resolve(lambda p: p.get("missing"), {}) == ""
    assert resolve(lambda p: (p["a"], 2), {"a": 1}) == "[1,2]"


@pytest.mark.parametrize("value", [UUID(int=7), Decimal("1.50"), date(2026, 1, 2)])
def test_a_function_may_return_what_has_a_text_of_its_own(value):
    assert resolve(lambda p: value, {}) == str(value)


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, frozenset({1}), len, lambda: 1, [object()], {"a": b"x"}, 10**5000],
    ids=lambda value: type(value).__name__,
)
def test_a_value_whose_text_differs_by_process_is_refused(value):
    with pytest.raises(KeyFailed, match="key function"):
        resolve(lambda p: value, {}, "sync")


def test_a_key_function_that_raises_is_named_with_its_error():
    def by_org(params):
        return params["org"]

    with pytest.raises(KeyFailed) as failed:
        resolve(by_org, {"tenant": "secret"}, "sync")
    message = str(failed.value)
    assert "workflow 'sync'" in message
    assert "by_org raised KeyError: 'org'" in message
    assert "tenant" in message
    assert "secret" not in message
    assert failed.value.code == "key_failed"
    assert isinstance(failed.value.__cause__, KeyError)


def test_what_is_no_key_is_named_with_its_workflow_where_there_is_one():
    for workflow, where in (("", ""), ("sync", "workflow 'sync': ")):
        with pytest.raises(KeyFailed) as failed:
            text_of({1}, "key", workflow)
        assert str(failed.value).startswith(f"{where}key is {{1}}, a set")


def test_a_key_function_cannot_change_the_params():
    params = {"tenant": "a"}
    resolve(lambda p: p.pop("tenant"), params)
    assert params == {"tenant": "a"}


def test_a_key_function_whose_code_is_elsewhere_says_what_to_import():
    with pytest.raises(KeyNeedsCode, match=r"'sync'.*app\.by_org.*import"):
        resolve(KeyElsewhere("app.by_org"), {}, "sync")


@pytest.mark.parametrize("key", ["tenant_id", None, lambda p: "", str, "any text at all"])
def test_names_functions_and_none_are_keys(key):
    check_key("sync", "Limit.key", key)


async def _awaited(params):
    return ""


@pytest.mark.parametrize(
    "key",
    ["", 0, 1, True, 1.5, b"a", ["a"], ("a", "b"), {"a"}, object(), _awaited],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_is_no_key(key):
    with pytest.raises(ConfigurationError, match=r"workflow 'sync': Limit\.key is "):
        check_key("sync", "Limit.key", key)


@given(LONG_TEXT, LONG_TEXT)
def test_different_keys_have_different_stored_forms(one, other):
    assert (storable(one) == storable(other)) == (one == other)


@given(LONG_TEXT)
def test_a_stored_form_is_short_text_that_any_store_indexes(key):
    form = storable(key)
    data = form.encode()  # so no lone surrogate
    assert len(data) <= 300
    assert not any(unicodedata.category(c) == "Cc" for c in form)
    assert storable(key) == form


@given(LONG_TEXT)
def test_a_key_that_looks_like_a_stored_form_is_still_another_key(key):
    form = storable(key)
    if form != key:
        assert storable(form) != form


@pytest.mark.parametrize(
    "key", ["", "a", "2800::1", "{x}", "a/b@c", "a b", "日本", "x" * 200, "é" * 100, "~", "a~b"], ids=ascii
)
def test_ordinary_keys_are_stored_as_they_are(key):
    assert storable(key) == key


@pytest.mark.parametrize(
    "key", ["\n", "\0", "a\0b", "\x7f", "x" * 201, "é" * 101, "\ud800", "a~" + "0" * 32], ids=ascii
)
def test_other_keys_are_stored_as_a_readable_prefix_and_a_digest(key):
    prefix, _, hexdigits = storable(key).rpartition("~")
    assert len(hexdigits) == 32
    assert prefix == "".join(c if c.isprintable() else "\ufffd" for c in key[:60])


def test_odd_keys_stay_apart():
    nfc, nfd = unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é")
    keys = ["2800::1", "{x}", "a/b@c", "a b", "", "\n", "a_b", "A B", nfc, nfd, "*"]
    assert len({storable(key) for key in keys}) == len(keys)


def test_stored_forms_never_change_between_releases():
    assert storable("x" * 201) == "x" * 60 + "~" + "12bf1cc881648017342067435dc826c6"


@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans()))
def test_a_number_and_its_text_share_a_bucket(value):
    assert text_of(value) == text_of(str(value)) == str(value)
