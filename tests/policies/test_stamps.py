"""What is fixed on a run when it is submitted, and the ids that follow from it. (Field reports 36, 39,
74.)"""

from __future__ import annotations

import enum
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula.errors import ConfigurationError, KeyFailed, KeyNeedsCode
from pyrula.model.payload import encode
from pyrula.policies import Collect, Debounce, Fairness, Limit, Rate, Retry
from pyrula.policies.declared import Declared, declare, from_json, to_json
from pyrula.policies.key import storable
from pyrula.policies.stamp import (
    GateStamp,
    Stamp,
    Stamped,
    gate_id,
    gate_ids,
    lane_id,
    stamp_by_declaration,
    stamp_declared,
    stamp_event_by_declaration,
    stamp_event_declared,
    unit_id,
)


class Level(int, enum.Enum):
    """Two as an enum's member: its text is "Level.TWO", its repr "<Level.TWO: 2>"."""

    TWO = 2


SYNC = declare("sync", concurrency=Limit("tenant_id", 2), rate_limit=Rate("tenant_id", 5, 10))


def test_a_run_carries_its_gates_numbers_and_keys():
    stamped = stamp_declared(SYNC, {"tenant_id": "a", "account": "x"})
    assert stamped.stamp.gates == (
        GateStamp("sync.limit", "limit", 2, "executing"),
        GateStamp("sync.rate", "rate", (5, 1, 10)),
    )
    assert stamped.keys == ("a", "a")
    assert (stamped.unit_key, stamped.priority, stamped.weight) == ("a", 3, 1.0)
    assert stamped.stamp.timeout_us is stamped.stamp.trigger is None


def test_runs_of_one_declaration_share_one_stamp():
    one, other = (stamp_declared(SYNC, {"tenant_id": tenant}).stamp for tenant in "ab")
    assert one is other
    assert one.digest == other.digest


def test_two_declarations_differ_in_the_stamp_and_share_the_counters():
    later = declare("sync", concurrency=Limit("tenant_id", 5), rate_limit=Rate("tenant_id", 5, 10))
    old, new = stamp_declared(SYNC, {"tenant_id": "a"}), stamp_declared(later, {"tenant_id": "a"})
    assert old.stamp.digest != new.stamp.digest
    assert gate_ids(old) == gate_ids(new)


def test_gates_are_in_the_order_of_their_names_however_they_are_declared():
    limits = [Limit("b", 1, name="z"), Limit("a", 2, name="m")]
    forth, back = declare("w", concurrency=limits), declare("w", concurrency=limits[::-1])
    params = {"a": "1", "b": "2"}
    assert stamp_declared(forth, params).keys == stamp_declared(back, params).keys == ("1", "2")


def test_several_gates_are_numbered_and_named_ones_are_not_counted():
    several = declare(
        "w",
        concurrency=[Limit("a", 1), Limit("b", 1, name="mine"), Limit("c", 1, shared="ours"), Limit("d", 1)],
        rate_limit=[Rate("a", 1), Rate("a", 0.1, 5)],
    )
    assert [gate.name for gate in several.gates] == [
        "mine",
        "ours",
        "w.limit",
        "w.limit2",
        "w.rate",
        "w.rate2",
    ]


def test_the_unit_is_the_fairness_key_else_the_first_limits_else_the_first_rates():
    params = {"f": "1", "l": "2", "r": "3"}
    limit, rate, fairness = Limit("l", 1, name="zz"), Rate("r", 1), Fairness("f")
    first = Limit("f", 1, shared="aa")
    assert (
        stamp_declared(declare("w", concurrency=limit, rate_limit=rate, fairness=fairness), params).unit_key
        == "1"
    )
    assert stamp_declared(declare("w", concurrency=[limit, first], rate_limit=rate), params).unit_key == "2"
    assert stamp_declared(declare("w", rate_limit=rate), params).unit_key == "3"
    assert stamp_declared(declare("w"), params).unit_key == ""


def test_a_weight_goes_by_the_key_value_as_resolved():
    odd = "x" * 300
    declared = declare("w", fairness=Fairness("tier", {"gold": 3, odd: 2, 7: 5}))
    weights = [stamp_declared(declared, {"tier": tier}).weight for tier in ("gold", odd, 7, "other", None)]
    assert weights == [3.0, 2.0, 5.0, 1.0, 1.0]


def test_a_key_function_is_called_once_for_all_gates():
    calls = []

    def key(params):
        calls.append(params)
        return f"{len(calls)}"

    declared = declare("w", concurrency=Limit(key, 1), rate_limit=Rate(key, 1), fairness=Fairness(key))
    stamped = stamp_declared(declared, {})
    assert (stamped.keys, stamped.unit_key, len(calls)) == (("1", "1"), "1", 1)


def test_a_key_function_that_fails_names_the_workflow():
    with pytest.raises(KeyFailed, match="workflow 'w'"):
        stamp_declared(declare("w", concurrency=Limit(lambda p: p["a"], 1)), {})


def test_a_submits_priority_goes_before_the_declared_one():
    declared = declare("w", priority=5)
    assert stamp_declared(declared, {}).priority == 5
    assert stamp_declared(declared, {}, 1).priority == 1
    for bad in (0, 6, True, "1", 1.0):
        with pytest.raises(ConfigurationError, match="priority"):
            stamp_declared(declared, {}, bad)


def test_odd_keys_are_stamped_in_their_stored_form():
    key = "tenant\0" * 100
    stamped = stamp_declared(SYNC, {"tenant_id": key})
    assert stamped.keys == (storable(key), storable(key))
    assert stamped.unit_key == storable(key)


NAMES = st.text(max_size=8)
GATES = st.builds(
    GateStamp, NAMES, st.just("limit"), st.integers(1, 2**63 - 1), st.sampled_from(["executing", "run"])
) | (st.builds(GateStamp, NAMES, st.just("rate"), st.tuples(*[st.integers(1, 2**63 - 1)] * 3)))
STAMPS = st.builds(
    Stamp,
    st.lists(GATES, max_size=3).map(tuple),
    st.floats(0.001, 1000),
    st.builds(lambda n, f: Retry(n, 1, f).stamp, st.integers(1, 9), st.floats(1, 10)),
    st.none() | st.integers(1, 2**62),
    st.none() | st.just(Collect("k", 5, 6).stamp) | st.just(Debounce("k", 5, max_wait_seconds=9).stamp),
)


@given(STAMPS, STAMPS)
def test_a_stamp_comes_back_as_it_was_stored_and_has_its_own_digest(one, other):
    assert Stamp.decode(one.encode()) == one
    assert (one.digest == other.digest) == (one == other)
    assert len(one.digest) == 16
    stamped = Stamped(one, ("a",) * len(one.gates), "u", 2, None)
    assert Stamped.decode(stamped.encode()) == stamped


# -- events


def test_an_event_finds_its_buffer_and_the_run_is_keyed_on_the_batch_key():
    digest = declare("digest", trigger=Collect("user_id", 50, 60), concurrency=Limit("key", 1))
    event = stamp_event_declared(digest, {"user_id": "u1", "key": "not this"})
    assert (event.key, event.text, event.stamped.keys) == ("u1", "u1", ("u1",))
    assert event.stamped.stamp.trigger == Collect("user_id", 50, 60).stamp


def test_events_without_the_key_share_one_buffer():
    digest = declare("digest", trigger=Debounce("user_id", 5))
    assert {
        stamp_event_declared(digest, event).key for event in ({}, {"user_id": None}, {"user_id": ""})
    } == {""}


def test_an_odd_batch_key_is_indexed_in_its_stored_form_and_told_as_it_is():
    digest = declare("digest", trigger=Debounce("user_id", 5), concurrency=Limit("key", 1))
    event = stamp_event_declared(digest, {"user_id": "a\0b"})
    assert (event.key, event.text, event.stamped.keys) == (storable("a\0b"), "a\0b", (storable("a\0b"),))


def test_the_run_of_a_batch_is_always_handed_a_key_that_json_can_hold():
    digest = declare("digest", trigger=Debounce(lambda event: "\ud800", 5), concurrency=Limit("key", 1))
    event = stamp_event_declared(digest, {})
    assert encode({"key": event.text})
    assert event.stamped.keys == (event.key,)


def test_a_workflow_without_a_trigger_takes_no_events():
    with pytest.raises(ConfigurationError, match="'sync' has no trigger"):
        stamp_event_declared(SYNC, {})


# -- declarations

FULL = declare(
    "full",
    concurrency=[Limit("a", 2, hold="run"), Limit("b", 3, shared="ours")],
    rate_limit=Rate(None, 7.3),
    trigger=Debounce("d", 5, max_wait_seconds=20),
    fairness=Fairness("a", {"gold": 2}),
    priority=2,
    retry=Retry(3),
    timeout=60,
)


@given(
    st.dictionaries(
        st.sampled_from("abcd"), st.none() | st.integers() | st.text(max_size=3) | st.just("gold")
    )
)
def test_a_client_without_the_code_stamps_alike(params):
    declaration = json.loads(json.dumps(to_json(FULL)))
    assert stamp_by_declaration(declaration, params) == stamp_declared(FULL, params)
    assert stamp_event_by_declaration(declaration, params) == stamp_event_declared(FULL, params)
    assert to_json(from_json(declaration)) == declaration


def test_a_key_function_needs_its_code():
    declaration = json.loads(json.dumps(to_json(declare("w", concurrency=Limit(lambda p: p["a"], 1)))))
    with pytest.raises(KeyNeedsCode, match=r"workflow 'w': its key is computed by .*lambda.*import"):
        stamp_by_declaration(declaration, {"a": 1})


# -- routing


@pytest.mark.parametrize(
    ("policies", "by", "route"),
    [
        ({}, "run", None),
        ({"concurrency": Limit("a", 1)}, "key", "1"),
        ({"concurrency": Limit("a", 1), "rate_limit": Rate("a", 1)}, "key", "1"),
        ({"concurrency": Limit("a", 1, shared="s"), "rate_limit": Rate("a", 1)}, "key", "1"),
        ({"concurrency": Limit("a", 1), "rate_limit": Rate("b", 1)}, "workflow", "w"),
        ({"concurrency": Limit("a", 1, shared="s"), "rate_limit": Rate("b", 1)}, "shared", "s"),
        ({"concurrency": Limit(None, 1)}, "workflow", "w"),
        ({"concurrency": Limit(None, 1, shared="s")}, "shared", "s"),
    ],
)
def test_runs_that_share_a_key_are_routed_together(policies, by, route):
    declared = declare("w", **policies)
    assert declared.routing.by == by
    assert stamp_declared(declared, {"a": 1, "b": 2}).route == route


# -- ids

PARTS = st.text(st.characters(), max_size=6)


@given(
    st.tuples(PARTS, st.sampled_from(["limit", "rate"]), PARTS),
    st.tuples(PARTS, st.sampled_from(["limit", "rate"]), PARTS),
)
def test_gates_have_one_id_each(one, other):
    assert (gate_id(*one) == gate_id(*other)) == (one == other)


@given(
    *[st.tuples(PARTS, st.integers(1, 5), PARTS, st.lists(st.binary(min_size=16, max_size=16), max_size=2))]
    * 2
)
def test_lanes_have_one_id_each(one, other):
    assert (lane_id(*one) == lane_id(*other)) == (one == other)


def test_ids_of_different_things_differ_and_never_change():
    ids = [gate_id("a", "limit", "b"), unit_id("a", "b"), unit_id("ab", ""), lane_id("a", 3, "b", [])]
    assert len(set(ids)) == 4
    assert all(len(each) == 16 for each in ids)
    assert gate_id("sync.limit", "limit", "a").hex() == "ba3fb2aca7a002d859f453a72e99ca6e"


def test_a_number_of_a_type_of_its_own_is_the_number_that_it_is():
    """Or a run's lane, whose id is of texts, would be one here and another where the number was read back."""

    def declared(two: int) -> Declared:
        return declare(
            "w",
            concurrency=Limit("k", two),
            rate_limit=Rate("k", two, two),
            retry=Retry(max_attempts=two),
            trigger=Collect("k", two, two),
            priority=two,
        )

    plain, enumerated = declared(2), declared(Level.TWO)
    assert encode(to_json(enumerated)) == encode(to_json(plain))
    for stamped in (stamp_declared(enumerated, {"k": "a"}), stamp_declared(plain, {"k": "b"}, Level.TWO)):
        assert [type(stamped.priority), type(stamped.stamp.gates[0].number)] == [int, int]
        assert stamped.stamp.digest == stamp_declared(plain, {"k": "a"}).stamp.digest
