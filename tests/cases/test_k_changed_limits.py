"""K. Definitions that change, differ or go away."""

from __future__ import annotations

from itertools import groupby

import pytest

from pyrula.workflows import Limit, Rate, Registry, WorkflowClient
from tests.cases.scene import Bystander, Scene, assert_times


@pytest.mark.parametrize(("how", "at"), [("override", 5), ("redeploy", 100), ("restamp", 5)])
async def test_case_067_a_changed_rate_reaches_the_stored_bucket(
    scene: Scene, bystander: Bystander, how: str, at: int
) -> None:
    """ "By t=6.0": at 5 s the debt of the old rate is 0.95 of a token, or 0.95 s at the new one."""
    scene.declare(rate_limit=Rate("k", 0.01, 1))
    await scene.work()
    await scene.one()
    queued = await scene.one()
    await scene.reach(5)
    if how == "override":
        await scene.client.override_rate("w.rate", per_second=1, burst=1)
    else:
        await scene.redeploy(rate_limit=Rate("k", 1, 1))
    if how == "restamp":
        assert await scene.client.restamp("w") == 1
    await bystander.queue()
    await scene.reach(200)
    (started,) = scene.started(queued)
    assert at <= started <= (6 if at == 5 else 100) + 0.001


async def test_case_069_an_overridden_burst_holds_for_the_full_bucket_too(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(rate_limit=Rate("k", 1, 20))
    await scene.submit(15)
    await bystander.queue()
    await scene.client.override_rate("w.rate", per_second=1, burst=10)
    await scene.work()
    await scene.reach(30)
    assert_times(scene.times(), [0.0] * 10 + [1, 2, 3, 4, 5])


async def test_case_069_after_a_redeploy_each_run_meets_the_burst_of_its_own_stamp(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(rate_limit=Rate("k", 1, 20))
    await scene.submit(15)
    await scene.redeploy(rate_limit=Rate("k", 1, 10))
    await bystander.queue()
    await scene.reach(1000)
    assert_times(scene.times(), [0.0] * 15)
    await scene.submit(15)
    await scene.reach(1100)
    assert_times(scene.times()[15:], [1000.0] * 10 + [1001, 1002, 1003, 1004, 1005])


async def test_case_072_runs_queued_under_a_removed_limit_finish_and_new_ones_are_free(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(concurrency=Limit("k", 1))
    await scene.work(max_concurrent_runs=20)
    ids = await scene.submit(50, seconds=1)
    await scene.redeploy()
    await bystander.queue()
    await scene.reach(9.5)
    new = [await scene.one(seconds=1, k="new") for _ in range(3)]
    assert_times(scene.times(), list(range(10)))
    assert_times(scene.times("new"), [9.5] * 3)
    assert await scene.client.restamp("w") == 40
    await scene.reach(30)
    assert len(scene.times()) == 50
    assert max(scene.times()) <= 12.5
    assert await scene.states([*ids, *new]) == ["completed"] * 53


async def test_case_072_without_a_restamp_they_still_run_one_at_a_time(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(concurrency=Limit("k", 1))
    await scene.work()
    await scene.submit(50, seconds=1)
    await scene.redeploy()
    await bystander.queue()
    await scene.reach(60)
    assert_times(scene.times(), list(range(50)))
    assert scene.peaks["k"] == 1


@pytest.mark.parametrize("first", [2, 5])
async def test_case_074_each_run_carries_the_number_of_the_code_that_submitted_it(
    scene: Scene, bystander: Bystander, first: int
) -> None:
    """Both workers serve both kinds; which one registers first makes no difference."""
    clients = {}
    registries = {number: Registry() for number in (2, 5)}
    for number, registry in registries.items():
        scene.declare(registry=registry, concurrency=Limit("k", number))
        clients[number] = WorkflowClient(scene.env.store, registry)
    for number in sorted(registries, key=lambda number: number != first):
        await scene.work(workflows=registries[number])
    scene.client = clients[2]
    await bystander.queue()
    for _ in range(5):
        for number, client in clients.items():
            await client.submit_many("w", [{"k": "k", "n": number, "seconds": 1}] * 2)
    await scene.env.settle()
    await scene.reach(60)
    stamped = {start.run_id: start.n for start in scene.starts if start.key == "k"}
    active: set[str] = set()
    peak = 0
    for begins, group in groupby(scene.log, key=lambda entry: entry[0]):
        ids = {run_id for _, key, run_id in group if key == "k"}
        if not begins:
            active -= ids
            continue
        # What two workers are handed at one instant begins in either order: the store let in the lower stamps first.
        for run_id in sorted(ids, key=lambda run_id: stamped[run_id]):
            assert len(active) < stamped[run_id]
            active.add(run_id)
            peak = max(peak, len(active))
    assert len(stamped) == 20
    assert 2 < peak <= 5


async def test_case_074_an_override_binds_runs_of_every_stamp(scene: Scene, bystander: Bystander) -> None:
    registries = {number: Registry() for number in (2, 5)}
    for number, registry in registries.items():
        scene.declare(registry=registry, concurrency=Limit("k", number))
        client = scene.client = WorkflowClient(scene.env.store, registry)
        await client.submit_many("w", [{"k": "k", "n": number, "seconds": 1}] * 10)
        await scene.work(workflows=registry)
    await bystander.queue()
    await scene.client.override_limit("w.limit", max=3)
    before = len(scene.times())
    await scene.reach(0.5)
    scene.peaks.clear()
    await scene.reach(60)
    assert len(scene.times()) == 20
    assert scene.peaks["k"] == 3
    assert before <= 3
