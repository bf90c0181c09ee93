"""H. A full key in front of others."""

from __future__ import annotations

from pyrula.workflows import Limit, Rate
from tests.cases.scene import Bystander, Scene, assert_times


async def test_case_049_a_full_tenant_does_not_stop_another_from_being_picked(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(concurrency=Limit("k", 1))
    await scene.work()
    await scene.submit(1001, k="a", seconds=1000)
    await scene.reach(1)
    b = await scene.one(k="b")
    await bystander.queue()
    assert_times(scene.started(b), [1])
    assert len(scene.times("a")) == 1


async def test_case_052_a_long_backfill_does_not_stop_other_workflows(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare("A", concurrency=Limit(None, 1))
    for name in "BCDEFGHIJK":
        scene.declare(name, concurrency=Limit(None, 1))
    await scene.work()
    await scene.submit(181, "A", seconds=1000)
    await scene.reach(1)
    for name in "BCDEFGHIJK":
        await scene.one(name, k=name)
    for name in "BCDEFGHIJK":
        assert_times(scene.times(name), [1])
    await bystander.queue("B")
    assert len(scene.times()) == 1


async def test_case_053_runs_that_wait_for_a_token_are_not_held_in_the_worker(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare("A", rate_limit=Rate("k", 1, 1))
    scene.declare("B")
    worker = await scene.work(max_concurrent_runs=4)
    waiting = await scene.submit(100, "A")
    await scene.reach(0.5)
    done = await scene.submit(10, "B", k="b")
    await bystander.queue("A")
    assert await scene.states(done) == ["completed"] * 10
    assert worker.executing == 0
    assert (await scene.states(waiting)).count("queued") == 99
    await scene.reach(1)
    assert_times(scene.times("b"), [0.5] * 10)
    assert_times(scene.times(), [0, 1])
