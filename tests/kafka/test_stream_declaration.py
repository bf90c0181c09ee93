"""KafkaStream as a declaration: what it takes and what it refuses."""

from __future__ import annotations

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
        *(("value", value) for value in ["", "bytes", None]),
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
