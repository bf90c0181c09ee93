"""N. Fixed-window counters, through a worker; tests/limiters has the same cases on the counter alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.scene import Scene, assert_times

LOOKS_AGAIN = 0.5
"""How late a worker that was held back by its limiters may be."""


def counter(limit: int, window: float) -> dict[str, Any]:
    return {"limits": {"worker": {"workflow": (None, limit)}}, "limiter_time_windows": {"workflow": window}}


def assert_soon(found: list[float], expected: list[float]) -> None:
    assert len(found) == len(expected), found
    assert all(0 <= a - b <= LOOKS_AGAIN for a, b in zip(found, expected, strict=True)), found


async def test_case_098_the_edge_of_a_window_belongs_to_the_new_one(scene: Scene) -> None:
    scene.declare()
    await scene.work(**counter(1, 1))
    for at in range(10):
        await scene.reach(at)
        await scene.one()
    await scene.reach(20)
    assert_times(scene.times(), list(range(10)))


@pytest.mark.parametrize("created", [0.0, 9.9])
async def test_case_099_windows_count_from_the_counters_creation(scene: Scene, created: float) -> None:
    scene.declare()
    await scene.reach(created)
    await scene.work(**counter(10, 10))
    await scene.reach(9.9)
    await scene.submit(10)
    await scene.reach(10)
    await scene.submit(10)
    await scene.reach(30)
    second = 10.0 if created == 0 else 19.9
    assert_soon(scene.times(), [9.9] * 10 + [second] * 10)


async def test_case_102_no_more_is_claimed_in_one_go_than_the_window_has_left(scene: Scene) -> None:
    scene.declare()
    worker = await scene.work(max_concurrent_runs=100, **counter(10, 60))
    await scene.submit(5)
    await scene.submit(100)
    assert_times(scene.times(), [0.0] * 10)
    assert worker.stats().limiters.frequency["workflow"] == 10
    await scene.reach(59)
    assert len(scene.times()) == 10


@pytest.mark.parametrize(
    ("limit", "window", "times"), [(1, 6, [0, 6, 12, 18, 24]), (2, 12, [0, 0, 12, 12, 24])]
)
async def test_case_103_small_limits_begin_exactly_once_per_place(
    scene: Scene, limit: int, window: float, times: list[float]
) -> None:
    scene.declare()
    await scene.work(**counter(limit, window))
    await scene.submit(5)
    await scene.reach(30)
    assert_soon(scene.times(), times)
