"""Numbers and durations that can't be kept are refused where the workflow is declared. (Field reports 111,
114, 116.)"""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula.errors import ConfigurationError
from pyrula.policies import Collect, Cron, Debounce, Every, Fairness, Limit, Rate, Retry

NAN, INF = float("nan"), float("inf")
NO_NUMBERS = [True, False, None, "1", "", b"1", [1], {}, object(), 1j]
NO_COUNTS = [*NO_NUMBERS, 0, -1, -(2**70), 2**63, 10**5000, 1.0, 0.5, NAN, INF, timedelta(1)]
NO_DURATIONS = [
    *NO_NUMBERS,
    0,
    -1,
    0.0,
    -0.0,
    -0.5,
    NAN,
    INF,
    -INF,
    1e-9,
    1e300,
    10**5000,
    timedelta(0),
    timedelta(-1),
]
NO_DURATIONS += [timedelta(days=40_000), timedelta.max]


def of_kind(value):
    """A test's id: some values have no text, or one that differs by process."""
    return type(value).__name__


HOSTILE = st.one_of(
    st.sampled_from([*NO_COUNTS, *NO_DURATIONS]),
    st.integers(),
    st.floats(),
    st.text(),
    st.timedeltas(),
    st.decimals(),
)


def refusal(policy, argument):
    """The message of a policy's refusal, after the checks that hold for every one of them."""
    with pytest.raises(ConfigurationError) as refused:
        policy.check("sync")
    message = str(refused.value)
    assert isinstance(refused.value, ValueError)
    assert refused.value.code == "configuration"
    assert message.startswith(f"workflow 'sync': {type(policy).__name__}.{argument} is ")
    assert "; it must be " in message
    assert len(message) < 400
    return message


@pytest.mark.parametrize("value", NO_COUNTS, ids=of_kind)
def test_a_limit_needs_a_whole_number_of_at_least_one(value):
    refusal(Limit("k", value), "max")


def test_the_message_shows_the_value():
    assert refusal(Limit("k", -1), "max") == (
        "workflow 'sync': Limit.max is -1; it must be an int of at least 1"
    )


@pytest.mark.parametrize(
    "value", [*NO_NUMBERS, 0, 0.0, -1, NAN, INF, -INF, 1e-7, 1e12, 1e300, 10**5000, -(10**5000)], ids=of_kind
)
def test_a_rate_needs_a_positive_finite_number(value):
    refusal(Rate("k", value, 5), "per_second")


@pytest.mark.parametrize("value", [value for value in NO_COUNTS if value is not None], ids=of_kind)
def test_a_burst_is_a_whole_number_of_at_least_one(value):
    refusal(Rate("k", 5, value), "burst")


@pytest.mark.parametrize("value", NO_COUNTS, ids=of_kind)
def test_a_batch_holds_at_least_one_event(value):
    refusal(Collect("k", value, 10), "max_events")


@pytest.mark.parametrize("value", NO_DURATIONS, ids=of_kind)
def test_a_window_is_a_positive_duration(value):
    refusal(Collect("k", 5, value), "window_seconds")
    refusal(Debounce("k", value), "window_seconds")
    refusal(Every(value), "seconds")
    refusal(Retry(initial_seconds=value), "initial_seconds")
    if value is not None:
        refusal(Debounce("k", 5, max_wait_seconds=value), "max_wait_seconds")
        refusal(Retry(max_seconds=value), "max_seconds")


@pytest.mark.parametrize("value", [5, 4.999999, timedelta(seconds=5), 0.1], ids=of_kind)
def test_a_longest_wait_is_longer_than_the_window(value):
    assert "(5 s)" in refusal(Debounce("k", 5, max_wait_seconds=value), "max_wait_seconds")


@pytest.mark.parametrize("value", [*NO_NUMBERS, 0, -1, NAN, INF, 0.0001, 1001], ids=of_kind)
def test_a_weight_is_positive_and_within_bounds(value):
    if value != {}:
        refusal(Fairness("k", value), "weight")
    with pytest.raises(ConfigurationError, match=r"Fairness\.weight\['a'\] is "):
        Fairness("k", {"a": value}).check("sync")


def test_two_weights_for_one_key_value_are_refused():
    with pytest.raises(ConfigurationError, match="two weights for the key value '1'"):
        Fairness("k", {1: 1.0, "1": 2.0}).check("sync")
    with pytest.raises(ConfigurationError, match="keyed by key values"):
        Fairness("k", {object(): 1.0}).check("sync")


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("max_attempts", value) for value in [0, -1, True, 1.5, "3", 10**9]),
        *(("factor", value) for value in [0, 0.99, -2, NAN, INF, "2", None, True, 1e9]),
        *(("jitter", value) for value in [-0.1, 1.01, NAN, "0", None, True]),
        ("max_seconds", 0.5),
    ],
)
def test_a_retry_grows_within_bounds(argument, value):
    refusal(Retry(**{argument: value}), argument)


@pytest.mark.parametrize("value", ["", " ", "a\n", " a", 1, b"a", True, "x" * 201, "\ud800"], ids=of_kind)
@pytest.mark.parametrize("argument", ["name", "shared"])
def test_a_gates_name_is_readable_text(argument, value):
    refusal(Limit("k", 1, **{argument: value}), argument)
    refusal(Rate("k", 1, **{argument: value}), argument)


def test_a_gate_has_one_name():
    refusal(Limit("k", 1, shared="a", name="b"), "name")


@pytest.mark.parametrize("value", ["", "parked", None, True, 1], ids=of_kind)
def test_a_slot_is_held_while_executing_or_for_the_run(value):
    refusal(Limit("k", 1, hold=value), "hold")


@pytest.mark.parametrize(
    "expr",
    [
        None,
        1,
        "",
        "x",
        "* * * *",
        "60 * * * *",
        "0 0 31 2 *",
        "0 0 30 2 *",
        "* * * * * * *",
        "@never",
        "*/0 * * * *",
    ],
)
def test_a_cron_expression_is_one_that_comes_due(expr):
    refusal(Cron(expr), "expr")


@pytest.mark.parametrize(
    "tz", ["", "Mars/Olympus", None, 1, "../etc/passwd", "UTC\0", "Europe", "/etc/localtime"]
)
def test_a_time_zone_exists(tz):
    refusal(Cron("0 9 * * *", tz), "tz")


@pytest.mark.parametrize(
    "params", [None, [], "a", {"a": b""}, {1: 2}, {"a": NAN}, {"a": "x" * (1 << 20)}], ids=of_kind
)
def test_the_params_of_a_schedule_are_a_json_object(params):
    for schedule in (Cron("0 9 * * *", params=params), Every(5, params)):
        with pytest.raises(ConfigurationError, match=rf"workflow 'sync': {type(schedule).__name__}\.params"):
            schedule.check("sync")


def test_a_schedule_of_more_than_ten_a_second_is_refused():
    refusal(Every(0.05), "seconds")


@given(HOSTILE, HOSTILE, HOSTILE)
def test_a_policy_is_kept_or_refused_and_nothing_else(one, two, three):
    """Whatever the arguments: constructing never raises, and check raises ConfigurationError or what it takes
    works."""
    policies = [
        Limit("k", one),
        Rate("k", one, two),
        Collect("k", one, two),
        Debounce("k", one, max_wait_seconds=two),
        Fairness("k", one),
        Retry(one, two, three),
        Retry(factor=one, max_seconds=two, jitter=three),
        Every(one),
    ]
    for policy in policies:
        try:
            policy.check("sync")
        except ConfigurationError:
            continue
        if isinstance(policy, Limit):
            assert 1 <= policy.number < 2**63
        elif isinstance(policy, Rate):
            p, q, burst = policy.number
            assert p >= 1
            assert q >= 1
            assert 1 <= burst < 2**63
        elif isinstance(policy, Collect):
            assert policy.stamp.max_events >= 1
            assert 1 <= policy.stamp.window_us < 2**62
        elif isinstance(policy, Debounce):
            assert policy.stamp.max_wait_us is None or policy.stamp.max_wait_us > policy.stamp.window_us >= 1
        elif isinstance(policy, Retry):
            assert all(1 <= policy.delay_us(n, c) < 2**62 for n in (1, 2, 50, 10**6) for c in (0.0, 0.999))
        elif isinstance(policy, Every):
            assert 0 < policy.next_after(10**15) - 10**15 < 2**62
        else:
            assert 0 < policy.usual_weight <= 1000
