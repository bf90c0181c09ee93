"""KafkaStream as a declaration: what it takes and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula.errors import ConfigurationError
from pyrula.kafka import KafkaStream

GOOD = {"topic": "orders", "group": "orders-sync", "servers": "localhost:9092"}


def test_a_stream_of_three_names_is_enough():
    stream = KafkaStream(**GOOD)
    stream.check("sync")
    assert (stream.max_concurrency, stream.value, stream.start) == (16, "json", "earliest")
    assert (stream.key, stream.dead_letter_topic, stream.config) == (None, None, {})


@pytest.mark.parametrize("servers", ["a:1,b:2", " a:1 , b:2 ", ["a:1", "b:2"], ("a:1", "b:2")])
def test_servers_are_text_or_a_sequence(servers):
    stream = KafkaStream("t", "g", servers)
    stream.check("sync")
    assert stream.bootstrap_servers == "a:1,b:2"


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("topic", value) for value in ["", "a b", "x" * 250, "größe", None, 5]),
        *(("group", value) for value in ["", " ", "a\n", None, 5]),
        *(("servers", value) for value in ["", ",", [], [""], ["a", 5], None, 5, {"a:1"}]),
        *(("max_concurrency", value) for value in [0, -1, True, 1.5, "16", None, 10**9]),
        *(("key", value) for value in ["", 5, ["a"]]),
        *(("dead_letter_topic", value) for value in ["", "a b", 5, "orders"]),
        *(("value", value) for value in ["", "avro", None, b"json", ["json"]]),
        *(("start", value) for value in ["", "now", None, 0]),
        *(("config", value) for value in [None, [], {5: 1}]),
    ],
)
def test_a_bad_argument_is_named_with_its_value(argument, value):
    with pytest.raises(
        ConfigurationError, match=rf"workflow 'sync': KafkaStream\.{argument} is .*; it must be "
    ):
        KafkaStream(**{**GOOD, argument: value}).check("sync")


def test_settings_that_the_promises_rest_on_are_not_taken_from_config():
    with pytest.raises(ConfigurationError, match=r"sets enable\.auto\.commit, group\.id;"):
        KafkaStream(**GOOD, config={"group.id": "x", "enable.auto.commit": True, "client.id": "y"}).check(
            "sync"
        )


def test_a_declaration_does_not_tell_credentials():
    stream = KafkaStream(**GOOD, config={"sasl.password": "secret"}, key=lambda record: record["key"])
    declaration = stream.declaration()
    assert "secret" not in repr(declaration)
    assert "function" in declaration["key"]


def _decode(value):
    return None


class Decoder:
    def __call__(self, value):
        return None


class Waiting:
    async def __call__(self, value):
        return None


async def _awaited(value):
    return None


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        *((value, value) for value in ["json", "text", "bytes", "base64"]),
        (_decode, {"function": f"{__name__}._decode"}),
        (json.loads, {"function": "json.loads"}),
        (Decoder(), {"function": f"{__name__}.Decoder"}),
        (int, {"function": "builtins.int"}),
    ],
)
def test_values_are_read_by_name_or_by_a_function_of_which_the_declaration_tells_the_name_only(
    value, declared
):
    stream = KafkaStream(**GOOD, value=value)
    stream.check("sync")
    assert json.loads(json.dumps(stream.declaration()))["value"] == declared


@pytest.mark.parametrize(
    ("value", "must"),
    [
        (_awaited, "a plain function"),
        (Waiting(), "a plain function"),
        (lambda: None, "callable with the value's bytes alone: too many positional"),
        (lambda topic, value: None, "callable with the value's bytes alone: missing"),
    ],
)
def test_a_value_function_that_could_not_be_called_with_bytes_is_refused_where_it_is_declared(value, must):
    with pytest.raises(ConfigurationError, match=rf"KafkaStream\.value is .*; it must be {must}"):
        KafkaStream(**GOOD, value=value).check("sync")


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.lists(st.text())
)


@given(st.tuples(*[ANYTHING] * 9))
def test_whatever_it_is_given_it_is_kept_or_refused(arguments):
    try:
        KafkaStream(*arguments).check("sync")
    except ConfigurationError:
        return
    KafkaStream(*arguments).declaration()


def test_declaring_a_stream_needs_no_kafka_client():
    code = "import sys; import pyrula.kafka; sys.exit('confluent_kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
