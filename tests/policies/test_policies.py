"""What the policies say when they are as they should be."""

from __future__ import annotations

from datetime import timedelta
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula.model.duration import positive_us, to_us
from pyrula.policies import Collect, Debounce, Fairness, Limit, Rate, Retry
from pyrula.policies.retry import NO_RETRY


@given(st.floats(min_value=1e-6, max_value=1e6))
def test_burst_defaults_to_per_second_rounded_up(per_second):
    rate = Rate("k", per_second)
    rate.check("sync")
    assert rate.number[2] == ceil(per_second)


@pytest.mark.parametrize(
    ("per_second", "number"),
    [
        (5, (5, 1, 5)),
        (7.3, (73, 10, 8)),
        (0.3333333333333333, (1, 3, 1)),
        (100 / 60, (5, 3, 2)),
        (0.01, (1, 100, 1)),
    ],
)
def test_a_rate_is_stamped_as_an_exact_fraction(per_second, number):
    assert Rate("k", per_second).number == number


def test_a_huge_burst_is_kept_as_it_is():
    rate = Rate("k", 10, 2**33)
    rate.check("sync")
    assert rate.number == (10, 1, 2**33)


@pytest.mark.parametrize(
    ("value", "us"),
    [(1, 1_000_000), (0.25, 250_000), (19.5, 19_500_000), (0.1, 100_000), (timedelta(minutes=2), 120_000_000),
     (1e-6, 1), (timedelta(microseconds=1), 1), (86_400 * 365, 31_536_000_000_000)],
)  # fmt: skip
def test_durations_are_seconds_or_timedeltas(value, us):
    assert positive_us(value) == us


@given(st.integers(-(10**15), 10**15))
def test_microseconds_survive_the_way_through_seconds(us):
    assert to_us(us / 1_000_000) == us
    assert to_us(timedelta(microseconds=us)) == us


def test_a_trigger_is_stamped_in_microseconds():
    collect = Collect("k", 50, timedelta(minutes=1)).stamp
    assert (collect.max_events, collect.window_us) == (50, 60_000_000)
    debounce = Debounce("k", 5, max_wait_seconds=19.5).stamp
    assert (debounce.window_us, debounce.max_wait_us) == (5_000_000, 19_500_000)
    assert Debounce("k", 5).stamp.max_wait_us is None


def test_weights_are_looked_up_by_key_value():
    fairness = Fairness("k", {"gold": 3, 7: 2.0})
    fairness.check("sync")
    assert dict(fairness.weights) == {"gold": 3.0, "7": 2.0}
    assert fairness.usual_weight == 1.0
    assert Fairness("k", 2).usual_weight == 2.0


def test_policies_are_values():
    assert Limit("k", 2) == Limit(key="k", max=2)
    assert hash(Rate("k", 5)) == hash(Rate("k", 5))
    with pytest.raises(AttributeError):
        Limit("k", 2).max = 3  # type: ignore[misc]  # the assignment that is refused


def test_a_workflow_without_retry_gets_one_attempt():
    assert not NO_RETRY.allows(1)


def test_a_retry_allows_so_many_attempts():
    stamp = Retry(max_attempts=3).stamp
    assert [stamp.allows(attempt) for attempt in (1, 2, 3, 4)] == [True, True, False, False]
    assert Retry(max_attempts=None).stamp.allows(10**9)
    assert Retry().stamp.allows(4)
    assert not Retry().stamp.allows(5)


def test_back_offs_grow_by_the_factor_up_to_the_longest():
    retry = Retry(initial_seconds=1, factor=2, max_seconds=10, jitter=0)
    retry.check("sync")
    assert [retry.delay_us(attempt, 0.7) for attempt in range(1, 7)] == [
        10**6 * s for s in (1, 2, 4, 8, 10, 10)
    ]
    assert retry.delay_us(100_000, 0.0) == 10_000_000


def test_a_first_back_off_beyond_an_hour_is_its_own_longest():
    retry = Retry(initial_seconds=7200, jitter=0)
    retry.check("sync")
    assert retry.delay_us(1, 0.0) == retry.delay_us(9, 0.0) == 7_200_000_000


@given(st.integers(1, 60), st.floats(0, 1, exclude_max=True))
def test_chance_only_shortens_a_back_off_and_by_no_more_than_jitter(attempt, chance):
    plain = Retry(jitter=0).delay_us(attempt, chance)
    assert plain * 0.8 - 1 <= Retry(jitter=0.2).delay_us(attempt, chance) <= plain
    assert 1 <= Retry(jitter=1).delay_us(attempt, chance) <= plain
