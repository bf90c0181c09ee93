"""I. Order, priority, fairness."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pyrula.testing import START
from pyrula.workflows import Fairness, Limit, Rate
from tests.cases.scene import OTHER, Bystander, Scene, assert_times


async def test_case_055_a_tenants_backlog_uses_its_slots_and_no_more(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(concurrency=Limit("k", 2))
    await scene.work(max_concurrent_runs=4)
    await scene.submit(1000, k="A", seconds=1000)
    await scene.reach(1)
    b = await scene.one(k="B", seconds=1000)
    await bystander.queue()
    assert_times(scene.started(b), [1])
    assert scene.active["A"] == 2


async def test_case_055_the_next_free_place_goes_to_the_one_who_had_none(scene: Scene) -> None:
    scene.declare(fairness=Fairness("k"))
    await scene.work(max_concurrent_runs=4)
    await scene.submit(1000, k="A", seconds=10)
    await scene.reach(1)
    b = await scene.one(k="B", seconds=1000)
    assert scene.active["A"] == 4
    other = await scene.one(k=OTHER)
    await scene.reach(10)
    assert_times(scene.started(b), [10])
    assert_times(scene.started(other), [10])
    assert [start.key for start in scene.starts[4:6]] == ["B", OTHER]


async def test_case_056_priority_decides_though_the_rate_delays(scene: Scene, bystander: Bystander) -> None:
    scene.declare(rate_limit=Rate("k", 1000, 1))
    submitted = []
    for n in range(100):
        priority = (4, 1, 5, 2)[n * 7 % 4]
        run_id = await scene.one(n=n, options={"priority": priority})
        submitted.append((priority, n, run_id))
    await bystander.queue()
    await scene.work()
    await scene.reach(1)
    assert scene.order() == [run_id for _, _, run_id in sorted(submitted)]
    assert_times(scene.times(), [n / 1000 for n in range(100)])


async def test_case_059_no_priority_counts_as_3_and_nothing_missing_sorts_first(
    scene: Scene, bystander: Bystander
) -> None:
    """One place, bodies of 1 s: the order is written down here, so it is the same on every store."""
    scene.declare()
    script: list[tuple[str, dict[str, Any]]] = [
        ("plain 1", {}),
        ("first", {"priority": 1}),
        ("last", {"priority": 5}),
        ("three", {"priority": 3}),
        ("delayed", {"delay": 3}),
        ("plain 2", {}),
        ("two", {"priority": 2}),
        ("at 4", {"run_at": START + timedelta(seconds=4)}),
        ("four", {"priority": 4}),
        ("delayed first", {"priority": 1, "delay": 0.5}),
        ("plain 3", {}),
    ]
    for n, options in script:
        await scene.one(n=n, seconds=1, options=options)
    await scene.work(max_concurrent_runs=1)
    await scene.reach(20)
    assert [start.n for start in scene.starts] == [
        "first",  # t=0
        "delayed first",  # 1
        "two",  # 2
        "plain 1",  # 3
        "three",  # 4, and from now on all are due: in the order of their submission
        "delayed",
        "plain 2",
        "at 4",
        "plain 3",
        "four",
        "last",
    ]
    assert_times([start.at for start in scene.starts], list(range(11)))
    await bystander.queue()


@pytest.mark.parametrize("inflow", [3, 4, 5])
async def test_case_059_an_inflow_of_its_own_or_a_lower_priority_starves_nobody(
    scene: Scene, inflow: int
) -> None:
    scene.declare()
    await scene.work(max_concurrent_runs=1)
    for n in range(3):
        await scene.one(seconds=1, n=n, options={"priority": inflow})
    plain = await scene.one(k=OTHER, seconds=1)
    for at in range(10):
        await scene.reach(at + 0.5)
        await scene.one(seconds=1, n=at, options={"priority": inflow})
    assert_times(scene.started(plain), [3 if inflow == 3 else 1])
