"""Tokens are counted exactly: against fractions, at random times, and as field reports tell it."""

from fractions import Fraction
from math import inf, nan
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyrula.policies.tokens import available, convert, may_start, next_start, owed, parse_rate, take

SECOND = 10**6
MILLI = 1000


class Bucket:
    """A rate gate, as the store keeps it."""

    def __init__(self):
        self.debt, self.at, self.q = 0, 0, 1
        self.starts = []

    def start(self, rate, now):
        if not may_start(self.debt, self.at, self.q, rate, now):
            return False
        self.debt, self.at, self.q = take(self.debt, self.at, self.q, rate, now)
        self.starts.append(now)
        return True

    def next(self, rate, now):
        return next_start(self.debt, self.at, self.q, rate, now)

    def available(self, rate, now):
        return available(self.debt, self.at, self.q, rate, now)


def rate_of(per_second, burst):
    return (*parse_rate(per_second), burst)


def run_queue(rate, n, now=0, bucket=None):
    """Start n queued runs, each as soon as the bucket says, by a worker woken at the told times."""
    bucket = bucket or Bucket()
    for _ in range(n):
        now = bucket.next(rate, now)
        assert bucket.start(rate, now)
    return bucket.starts[-n:]


def seconds(*values):
    return [round(value * SECOND) for value in values]


@pytest.mark.parametrize(
    ("per_second", "fraction"),
    [(7.3, (73, 10)), (1 / 3, (1, 3)), (2 / 3, (2, 3)), (0.001, (1, 1000)), (1000, (1000, 1)),
     (1e6, (10**6, 1)), (5, (5, 1)), (100 / 60, (5, 3)), (1e-6, (1, 10**6)), (0.1, (1, 10))],
)  # fmt: skip
def test_a_rate_becomes_the_fraction_that_was_meant(per_second, fraction):
    assert parse_rate(per_second) == fraction


@pytest.mark.parametrize("per_second", [0, -1, nan, inf, -inf, 1e-9])
def test_a_rate_that_cannot_be_kept_is_refused(per_second):
    with pytest.raises(ValueError, match="per_second"):
        parse_rate(per_second)


def test_five_a_second_with_a_burst_of_ten():
    assert run_queue(rate_of(5, 10), 12) == [0] * 10 + [200_000, 400_000]


def test_seven_point_three_a_second_one_at_a_time():
    assert run_queue(rate_of(7.3, 1), 3) == [0, 136_987, 273_974]


def test_with_a_burst_of_two_the_average_is_exact():
    starts = run_queue(rate_of(7.3, 2), 73 * 20 + 2)
    assert starts[-1] == 200 * SECOND


RATES = st.one_of(
    st.sampled_from([7.3, 1 / 3, 0.001, 1000, 1e6, 2 / 3, 0.1, 1e-6]),
    st.floats(1e-3, 1e6, allow_nan=False),
    st.integers(1, 10**6),
)
BURSTS = st.one_of(st.integers(1, 20), st.sampled_from([2**31, 2**32 + 1, 2**33]))
GAPS = st.lists(
    st.one_of(st.integers(0, 3), st.integers(0, 2 * SECOND), st.integers(0, 400 * 86400 * SECOND)),
    max_size=60,
)


@given(RATES, BURSTS, GAPS, st.randoms(use_true_random=False))
@example(7.3, 13, [1] * 60, Random(0))
def test_no_span_has_one_start_too_many_and_none_is_late(per_second, burst, gaps, rng):
    p, q, _ = rate = rate_of(per_second, burst)
    bucket, now = Bucket(), rng.randrange(10**15)
    tokens, at = Fraction(burst), now  # the same bucket in fractions
    for gap in gaps:
        now += gap
        for _ in range(rng.choice([1, 1, 5])):
            due = bucket.next(rate, now)
            assert due >= now
            if due <= now + 2 * SECOND and rng.random() < 0.7:
                assert due == now or not bucket.start(rate, due - 1)
                now = due
            tokens = min(Fraction(burst), tokens + Fraction(p * (now - at), q * SECOND))
            at = now
            assert bucket.available(rate, now) == tokens // 1
            started = bucket.start(rate, now)
            assert started == (tokens >= 1), "neither early nor late by a microsecond"
            tokens -= started
    starts = bucket.starts
    if burst <= 20:
        for i in range(len(starts)):
            for j in range(i, len(starts)):
                assert j - i + 1 <= burst + Fraction(p * (starts[j] - starts[i]), q * SECOND)


@pytest.mark.parametrize("per_second", [7.3, 1 / 3, 0.001, 1000, 1e6, 0.7, 123.456])
@pytest.mark.parametrize("burst", [1, 2, 13])
def test_a_backlog_starts_at_the_rate_and_never_a_millisecond_late(per_second, burst):
    rate = rate_of(per_second, burst)
    exact = Fraction(rate[1], rate[0]) * SECOND
    starts = run_queue(rate, burst + 500)
    for n, start in enumerate(starts[burst:], 1):
        assert start >= n * exact
        if burst > 1:
            assert start - n * exact < 1
        else:  # a bucket of one banks no fraction of a microsecond
            assert start - starts[n - 1] - exact < 1


@given(st.integers(0, 2**80), st.integers(1, 10**6), st.integers(1, 10**6))
def test_converting_a_debt_never_forgives_a_unit(debt, q, to_q):
    there = convert(debt, q, to_q)
    assert Fraction(debt, q) <= Fraction(there, to_q) < Fraction(debt, q) + Fraction(1, to_q)


@given(st.lists(st.tuples(RATES, BURSTS, st.integers(0, SECOND)), min_size=1, max_size=40))
def test_whatever_stamps_share_a_gate_each_start_is_one_that_exact_buckets_grant(asks):
    bucket, debt, at, now = Bucket(), Fraction(0), 0, 0
    for per_second, burst, gap in asks:
        p, q, _ = rate = rate_of(per_second, burst)
        now += gap
        decayed = max(Fraction(0), debt - Fraction(p * (now - at), q * SECOND))
        if bucket.start(rate, now):
            assert decayed + 1 <= burst
            debt, at = decayed + 1, now
        else:
            assert decayed + 1 > burst - Fraction(1, 10**9)
            assert now < bucket.next(rate, now)


def test_the_debt_decays_at_the_rate_of_who_asks():
    bucket = Bucket()
    assert bucket.start(rate_of(0.01, 1), 0)
    assert bucket.next(rate_of(0.01, 1), 5 * SECOND) == 100 * SECOND
    assert bucket.start(rate_of(1, 1), 5 * SECOND)


def test_a_lowered_burst_never_shows_tokens_below_zero():
    bucket = Bucket()
    run_queue(rate_of(1, 20), 20, bucket=bucket)
    assert bucket.available(rate_of(1, 10), 0) == 0
    assert bucket.next(rate_of(1, 10), 0) == 11 * SECOND


def test_looking_and_being_refused_change_nothing():
    bucket = Bucket()
    rate = rate_of(1, 1)
    bucket.start(rate, 0)
    before = (bucket.debt, bucket.at, bucket.q)
    for now in range(0, SECOND, 1000):
        assert not bucket.start(rate, now)
    assert (bucket.debt, bucket.at, bucket.q) == before


def test_report_75_runs_spaced_exactly_at_the_rate_all_start():
    bucket, rate = Bucket(), rate_of(10, 1)
    assert all(bucket.start(rate, round(i * 0.1 * SECOND)) for i in range(10))


def test_report_77_looking_every_second_does_not_keep_a_slow_rate_from_granting():
    bucket, rate = Bucket(), rate_of(0.1, 1)
    for t in range(101):
        bucket.start(rate, t * SECOND)
    assert bucket.starts == [t * SECOND for t in range(0, 101, 10)]


def test_report_80_a_burst_is_a_burst():
    assert run_queue(rate_of(100 / 60, 50), 51) == [0] * 50 + [600_000]


def test_report_81_burst_and_refill_add_up():
    assert run_queue(rate_of(0.2, 2), 5) == seconds(0, 0, 5, 10, 15)


def test_report_84_no_error_adds_up_over_an_hour():
    rng, bucket, rate = Random(84), Bucket(), rate_of(7.3, 13)
    for now in sorted(rng.randrange(3600 * SECOND) for _ in range(100_000)):
        bucket.start(rate, now)
    starts = bucket.starts
    assert 26_000 < len(starts) <= 26_293
    # No span has too many iff n - 7.3 t never climbs more than 13 above its lowest so far.
    lowest = None
    for n, at in enumerate(starts):
        level = n * 10 * SECOND - 73 * at
        lowest = level if lowest is None else min(lowest, level)
        assert level + 10 * SECOND - lowest <= 13 * 10 * SECOND


def test_report_87_a_hundred_runs_at_ten_a_second_take_nine_seconds():
    starts = run_queue(rate_of(10, 10), 100)
    assert starts[-1] == 9 * SECOND


def test_report_88_idle_time_at_a_full_bucket_is_not_credited():
    assert run_queue(rate_of(0.1, 1), 2, now=600 * SECOND) == seconds(600, 610)


def test_report_93_tokens_refill_within_a_second():
    assert run_queue(rate_of(2, 1), 4) == seconds(0, 0.5, 1.0, 1.5)


def test_report_95_four_hundred_idle_days_overflow_nothing():
    bucket, rate, day = Bucket(), rate_of(1000, 5), 86400 * SECOND
    bucket.start(rate, 0)
    starts = run_queue(rate, 10, now=400 * day, bucket=bucket)
    assert [s - 400 * day for s in starts] == [0] * 5 + [MILLI * i for i in range(1, 6)]


def test_a_burst_of_2_to_the_33_keeps_its_last_token():
    bucket, rate = Bucket(), (10**6 - 1, 10**6, 2**33)
    assert bucket.start(rate, 0)
    assert bucket.available(rate, 0) == 2**33 - 1
    assert owed(bucket.debt, bucket.at, bucket.q, rate, 0) == 10**12
