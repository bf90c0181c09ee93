"""When schedules come due, daylight saving included."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula.policies import Cron, Every
from pyrula.policies.schedule import schedule_from, tick_name

SECOND = 1_000_000
WALL = st.integers(0, 4_102_444_800 * SECOND)  # to the year 2100


def us(text: str) -> int:
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def ticks(schedule, after, count):
    """The next so many ticks, as instants in UTC."""
    found, at = [], us(after)
    for _ in range(count):
        at = schedule.next_after(at)
        found.append(tick_name(at))
    return found


def test_a_cron_ticks_at_its_times():
    assert ticks(Cron("0 9 * * *"), "2026-03-01T09:00:00Z", 2) == [
        "2026-03-02T09:00:00Z",
        "2026-03-03T09:00:00Z",
    ]
    assert ticks(Cron("0 9 * * *"), "2026-03-01T08:59:59.999999Z", 1) == ["2026-03-01T09:00:00Z"]
    assert ticks(Cron("30 8 * * 1", tz="Asia/Kolkata"), "2026-03-01T00:00:00Z", 1) == ["2026-03-02T03:00:00Z"]
    assert ticks(Cron("*/20 * * * * *"), "2026-03-01T00:00:00Z", 2) == [
        "2026-03-01T00:00:20Z",
        "2026-03-01T00:00:40Z",
    ]
    assert ticks(Cron("@daily"), "2026-03-01T00:00:00Z", 1) == ["2026-03-02T00:00:00Z"]
    assert ticks(Cron("0 0 29 2 *"), "2026-03-01T00:00:00Z", 1) == ["2028-02-29T00:00:00Z"]


def test_a_tick_the_clocks_skip_comes_right_after_the_gap():
    berlin = Cron("30 2 * * *", tz="Europe/Berlin")  # 2026-03-29: 02:00 becomes 03:00
    assert ticks(berlin, "2026-03-28T12:00:00Z", 2) == ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]


def test_two_ticks_the_clocks_skip_are_one_tick_after_the_gap():
    berlin = Cron("0,30 2 * * *", tz="Europe/Berlin")
    assert ticks(berlin, "2026-03-28T12:00:00Z", 2) == ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]


def test_a_tick_in_the_repeated_hour_comes_once_the_first_time():
    berlin = Cron("30 2 * * *", tz="Europe/Berlin")  # 2026-10-25: 03:00 becomes 02:00
    assert ticks(berlin, "2026-10-24T12:00:00Z", 2) == ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]


def test_asked_within_the_repeated_hour_a_tick_is_never_in_the_past():
    berlin = Cron("45 2 * * *", tz="Europe/Berlin")
    assert ticks(berlin, "2026-10-25T01:30:00Z", 1) == ["2026-10-26T01:45:00Z"]


def test_wildcards_go_by_real_time_through_both_changes():
    often = Cron("*/30 * * * *", tz="Europe/Berlin")
    for start in ("2026-03-29T00:00:00Z", "2026-10-25T00:00:00Z"):
        assert [us(tick) - us(start) for tick in ticks(often, start, 6)] == [
            1800 * SECOND * n for n in range(1, 7)
        ]


ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Tokyo", "Australia/Lord_Howe", "America/St_Johns"]
EXPRESSIONS = [
    "0 9 * * *",
    "30 2 * * *",
    "*/7 * * * *",
    "0 */5 * * *",
    "15 1,2,3 * * 0",
    "0 0 1 * *",
    "0,30 2 * * *",
]


@given(st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), WALL)
def test_ticks_go_forward_and_do_not_depend_on_when_they_are_asked_for(expr, tz, wall):
    schedule = Cron(expr, tz=tz)
    first = schedule.next_after(wall)
    assert first > wall
    assert first % SECOND == 0
    assert schedule.next_after(first - 1) == first
    assert schedule.next_after((wall + first) // 2) == first
    assert schedule.next_after(first) > first


@given(st.sampled_from(["0 9 * * *", "30 14 * * 3"]), st.sampled_from(ZONES), WALL)
def test_a_daytime_tick_keeps_its_local_time_all_year(expr, tz, wall):
    minute, hour = map(int, expr.split()[:2])
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=Cron(expr, tz=tz).next_after(wall))
    local = at.astimezone(ZoneInfo(tz))
    assert (local.hour, local.minute) == (hour, minute)


@given(st.floats(0.1, 1e6), WALL)
def test_every_ticks_at_multiples_so_that_workers_agree(seconds, wall):
    every = Every(seconds)
    first = every.next_after(wall)
    assert wall < first
    assert every.next_after(wall + (first - wall) // 2) == first or first - wall == 1
    assert every.next_after(first) - first == every.next_after(0)


def test_every_takes_a_timedelta():
    assert ticks(Every(timedelta(hours=6)), "2026-03-01T01:00:00Z", 2) == [
        "2026-03-01T06:00:00Z",
        "2026-03-01T12:00:00Z",
    ]


@pytest.mark.parametrize(
    "schedule", [Cron("0 9 * * *", tz="Europe/Berlin", params={"a": 1}), Every(90, {"b": [2]})]
)
def test_a_schedule_survives_the_way_through_a_declaration(schedule):
    back = schedule_from(schedule.declaration())
    assert back.next_after(us("2026-03-01T00:00:00Z")) == schedule.next_after(us("2026-03-01T00:00:00Z"))
    assert back.params == schedule.params
