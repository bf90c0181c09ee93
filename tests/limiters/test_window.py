"""Fixed windows: edges, several wide, no burst through a change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula.limiters.window import FixedWindow
from tests.limiters.support import made_hub, run_through


def counter(limit, width, at=0.0):
    hub, clock = made_hub(at)
    made = hub.worker(
        "w",
        kinds=("workflow",),
        limits={"worker": {"workflow": (None, limit)}},
        limiter_time_windows={"workflow": width},
    )
    return made, clock


def test_the_edge_belongs_to_the_new_window():  # field report 98
    limiter, clock = counter(1, 1)
    assert run_through(limiter, clock, "workflow", range(10), until=20) == [float(i) for i in range(10)]


@pytest.mark.parametrize(
    ("created", "begun"),
    [(0.0, [59.9] * 10 + [60.0] * 10), (59.9, [59.9] * 10 + [119.9] * 10)],
)
def test_windows_count_from_the_counters_creation(created, begun):  # field report 99
    limiter, clock = counter(10, 60, at=created)
    assert run_through(limiter, clock, "workflow", [59.9] * 10 + [60.0] * 10, until=200) == begun


def test_no_more_is_claimed_in_one_go_than_the_window_has_left():  # field report 102
    limiter, _ = counter(10, 60)
    limiter.begin("workflow", 5)
    limiter.end("workflow", 5)
    assert limiter.reserve("workflow", 100) == 5
    limiter.begin("workflow", 5)
    assert limiter.stats().frequency["workflow"] == 10
    assert limiter.reserve("workflow", 100) == 0


@pytest.mark.parametrize(
    ("limit", "width", "begun"), [(1, 60, [0, 60, 120, 180, 240]), (2, 120, [0, 0, 120, 120, 240])]
)
def test_small_limits_begin_exactly_once_per_place(limit, width, begun):  # field report 103
    limiter, clock = counter(limit, width)
    assert run_through(limiter, clock, "workflow", [0] * 5, until=1000) == begun


def test_a_change_of_width_keeps_the_count():
    window = FixedWindow(0, 60, 7).resize(10, 30)
    assert (window.began, window.ends_at) == (7, 40)


@given(st.lists(st.integers(0, 500), max_size=200), st.integers(1, 20), st.integers(1, 50))
def test_any_span_of_one_width_holds_at_most_twice_the_limit(instants, limit, width):
    window, begun = FixedWindow(0, width), []
    for now in sorted(instants):
        window, _ = window.roll(now)
        if window.began < limit:
            window.began += 1
            begun.append(now)
    for at in begun:
        assert sum(1 for other in begun if at <= other < at + width) <= 2 * limit
    for index in range(500 // width + 1):
        assert sum(1 for at in begun if at // width == index) <= limit
