"""The clock that stands still until it is moved."""

import asyncio
from datetime import UTC, datetime

import pytest

from pyrula.testing import VirtualClock
from pyrula.workflows import ConfigurationError

SECOND = 1_000_000


async def test_time_stands_still_until_it_is_moved():
    clock = VirtualClock()
    before = (clock.monotonic(), clock.wall())
    for _ in range(10):
        await asyncio.sleep(0)
    assert (clock.monotonic(), clock.wall()) == before
    clock.move(5 * SECOND)
    assert clock.now == 5.0
    assert clock.wall() == before[1] + 5 * SECOND


@pytest.mark.parametrize("start", [None, 0, "2026-01-05", datetime(2026, 1, 5)])
def test_a_clock_starts_at_an_instant(start):
    with pytest.raises(ConfigurationError, match=r"VirtualClock: start is .*; it must be an aware datetime"):
        VirtualClock(start)


async def test_sleepers_wake_at_their_own_times_and_in_their_order():
    clock = VirtualClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(int(seconds * SECOND))
        woken.append((name, clock.now))

    async with asyncio.TaskGroup() as group:
        for name, seconds in (("c", 3), ("a", 1), ("b", 1), ("d", 7)):
            group.create_task(sleeper(name, seconds))
        await asyncio.sleep(0)
        while (due := clock.next_due()) is not None:
            clock.move(due)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    assert woken == [("a", 1.0), ("b", 1.0), ("c", 3.0), ("d", 7.0)]


async def test_a_wait_ends_with_its_event_or_its_time():
    clock, event = VirtualClock(), asyncio.Event()
    assert await clock.wait(event, 0) is False
    timed = asyncio.ensure_future(clock.wait(event, SECOND))
    await asyncio.sleep(0)
    clock.move(SECOND)
    assert await timed is False
    told = asyncio.ensure_future(clock.wait(event, SECOND))
    await asyncio.sleep(0)
    event.set()
    assert await told is True
    assert clock.next_due() is None, "whoever gave up waiting is not waited for"
    assert await clock.wait(event, None) is True


async def test_a_cancelled_sleeper_is_due_no_more():
    clock = VirtualClock()
    sleeper = asyncio.ensure_future(clock.sleep(SECOND))
    await asyncio.sleep(0)
    assert clock.next_due() == SECOND
    sleeper.cancel()
    await asyncio.wait((sleeper,))
    assert clock.next_due() is None


def test_the_wall_steps_and_no_time_passes():
    clock = VirtualClock(datetime(2026, 3, 1, tzinfo=UTC))
    clock.move(100 * SECOND)
    clock.step_wall(-11)
    assert clock.now == 100.0
    assert clock.today == datetime(2026, 3, 1, 0, 1, 29, tzinfo=UTC)


def test_time_does_not_go_back():
    clock = VirtualClock()
    clock.move(2)
    with pytest.raises(ValueError, match="forward"):
        clock.move(1)
