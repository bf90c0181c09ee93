"""Leaky buckets: even gaps, pools, order of arrival, changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula.clock import SECOND
from pyrula.errors import ConfigurationError
from pyrula.limiters import PollRate
from pyrula.limiters.leaky import Bucket
from tests.limiters.support import asked, made_hub, run_through


def test_one_poller_polls_at_even_gaps():  # field report 174
    hub, clock = made_hub()
    limiter = hub.worker("w", kinds=("workflow",), task_poller_limiter=PollRate(limit=5, time_window=1))
    begun = run_through(limiter, clock, "workflow", [0] * 20, until=10)
    assert begun == [round(0.2 * i, 6) for i in range(20)]


def test_those_who_wait_for_one_bucket_are_served_in_order_of_arrival():  # field report 174
    hub, clock = made_hub()
    limiter = hub.worker("w", kinds=("workflow",), task_poller_limiter=PollRate(limit=5, time_window=1))
    served = []
    asks = [asked(limiter, "workflow", lambda granted, i=i: served.append(i)) for i in range(20)]
    assert asks[0].granted
    for tenth in range(1, 39):
        clock.to(tenth / 10)
        limiter.look()
    assert served == list(range(1, 20))


def test_a_pool_of_pollers_polls_as_many_times_as_often():
    hub, clock = made_hub()
    limiter = hub.worker(
        "w", kinds=("workflow",), task_poller_pool_size=2, task_poller_limiter=PollRate(10, 60)
    )
    assert run_through(limiter, clock, "workflow", [0] * 6, until=60) == [0, 0, 6, 6, 12, 12]


def test_an_empty_poll_counts_as_a_poll():
    hub, clock = made_hub()
    limiter = hub.worker("w", kinds=("workflow",), task_poller_limiter=PollRate(1, 10))
    assert limiter.reserve("workflow", 1) == 1
    limiter.polled("workflow", asked=1, got=0)
    clock.to(9.999)
    assert limiter.room("workflow").retry_at == 10 * SECOND
    clock.to(10)
    assert limiter.reserve("workflow", 1) == 1


def test_an_empty_poll_that_stays_open_brings_work_when_there_is_some_and_the_next_is_spaced_from_its_start():
    hub, clock = made_hub()
    limiter = hub.worker(
        "w", kinds=("workflow",), task_poller_pool_size=2, task_poller_limiter=PollRate(1, 10)
    )
    assert limiter.reserve("workflow", 9) == 2
    limiter.polled("workflow", asked=2, got=0, stay_open=True)
    clock.to(7)
    assert limiter.reserve("workflow", 9) == 2
    limiter.polled("workflow", asked=2, got=1, stay_open=True)
    assert limiter.reserve("workflow", 9) == 1
    assert limiter.room("workflow").retry_at == 10 * SECOND
    clock.to(30)
    limiter.polled("workflow", asked=1, got=0, stay_open=True)
    assert limiter.reserve("workflow", 9) == 2, "a pool never polls more often than it has pollers"


def test_local_executions_are_not_polls_and_no_bucket_spaces_them():
    hub, _ = made_hub()
    limiter = hub.worker("w", task_poller_limiter=PollRate(1, 10))
    assert limiter.reserve("workflow", 9) == 1
    assert limiter.room("activity_direct").n is None


def test_a_shorter_interval_is_felt_at_once_and_none_lifts_it():
    hub, clock = made_hub()
    limiter = hub.worker("w", kinds=("workflow",), task_poller_limiter=PollRate(1, 100))
    limiter.reserve("workflow")
    clock.to(1)
    limiter.set_config(task_poller_limiter=PollRate(1, 2))
    assert limiter.room("workflow").retry_at == 2 * SECOND
    limiter.set_config(task_poller_limiter=None)
    assert limiter.room("workflow").n is None


@pytest.mark.parametrize(
    "rate", [(1001, 1), (2, 0.001), (0, 1), (-1, 1), (True, 1), (1.5, 1), (1, float("nan"))]
)
def test_an_interval_below_one_millisecond_or_no_rate_at_all_is_refused(rate):
    with pytest.raises(ConfigurationError, match="PollRate"):
        PollRate(*rate)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 5)), max_size=60),
    st.integers(1, 4),
    st.integers(1, 40),
)
def test_no_span_of_one_interval_holds_more_polls_than_the_pool_has_pollers(asked, pool, interval):
    bucket, now, polls = Bucket.of(interval, pool), 0, []
    for gap, wanted in asked:
        now += gap
        n = min(wanted, bucket.ready(now))
        bucket = bucket.take(now, n)
        polls += [now] * n
    for at in polls:
        assert sum(1 for other in polls if at <= other < at + interval) <= pool


def test_a_poll_that_leaves_late_moves_the_next_one_of_its_poller():
    bucket = Bucket.of(10, 2).take(100, 2).later(100, 103)
    assert sorted(bucket.free_at) == [110, 113]
    assert bucket.later(55, 200) == bucket
