"""E. Limits that recovery, restart or requeue must not get round."""

from __future__ import annotations

from typing import Any

import pytest

from pyrula.workflows import Limit, Rate
from tests.cases.scene import OTHER, Bystander, Scene, assert_times


async def test_case_030_recovered_runs_keep_the_limit_and_take_no_second_token(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(concurrency=Limit("k", 2), rate_limit=Rate("k", 0.001, 10))
    dead = await scene.work()
    ids = await scene.submit(10, seconds=10)
    await scene.reach(5)
    await scene.env.kill(dead)
    for _ in range(3):
        await scene.work()
    await bystander.queue()
    await scene.reach(100)
    assert await scene.states(ids) == ["completed"] * 10
    assert scene.peaks["k"] == 2
    assert_times(scene.times(), [0, 0, 35, 35, 45, 45, 55, 55, 65, 65, 75, 75])
    assert scene.order() == [*ids[:2], *ids]
    (rate,) = await scene.client.gates("w.rate", "k")
    assert rate.tokens == 0


async def test_case_033_a_retried_run_waits_for_a_slot_and_takes_a_token(
    scene: Scene, bystander: Bystander
) -> None:
    async def body(ctx: Any, k: str, seconds: float = 0, n: Any = "") -> None:
        with scene.seat(ctx, k, n):
            await scene.env.sleep(seconds)
            if n == "fails" and ctx.attempt == 1:
                raise RuntimeError("as it was told")

    scene.declare(body=body, concurrency=Limit("k", 2), rate_limit=Rate("k", 0.0001, 4))
    await scene.work()
    failed = await scene.one(n="fails")
    assert await scene.state(failed) == "failed"
    ids = await scene.submit(2, seconds=100)
    assert await scene.client.retry(failed)
    await bystander.queue()
    await scene.reach(99.9)
    assert await scene.state(failed) == "queued"
    (rate,) = await scene.client.gates("w.rate", "k")
    assert rate.tokens == 1
    await scene.reach(101)
    assert_times(scene.started(failed), [0, 100])
    assert await scene.state(failed) == "completed"
    assert await scene.states(ids) == ["completed"] * 2
    (rate,) = await scene.client.gates("w.rate", "k")
    assert rate.tokens == 0
    assert scene.peaks["k"] == 2


@pytest.mark.parametrize("how", ["cancelled", "paused"])
async def test_case_034_runs_let_go_together_keep_to_the_rate(
    scene: Scene, bystander: Bystander, how: str
) -> None:
    scene.declare(rate_limit=Rate("k", 40, 40))
    ids = await scene.submit(100)
    if how == "cancelled":
        assert await scene.client.cancel_many(ids) == [True] * 100
        await scene.work()
        for run_id in ids:
            assert await scene.client.retry(run_id)
    else:
        await scene.client.pause("w.rate", "k")
        await scene.work()
        assert scene.times() == []
        await scene.client.resume("w.rate", "k")
    await bystander.queue()
    await scene.reach(0)
    assert len(scene.times()) == 40
    await scene.reach(1)
    assert len(scene.times()) <= 80
    await scene.reach(2)
    assert_times(scene.times(), [0.0] * 40 + [0.025 * n for n in range(1, 61)])
    assert scene.order() == ids


async def test_case_034_a_pause_of_the_whole_gate_holds_every_key(scene: Scene) -> None:
    scene.declare(rate_limit=Rate("k", 40, 40))
    await scene.submit(3)
    await scene.submit(3, k=OTHER)
    await scene.client.pause("w.rate")
    await scene.work()
    await scene.reach(1)
    assert scene.starts == []
    await scene.client.resume("w.rate")
    await scene.reach(2)
    assert_times(scene.times(), [1, 1, 1])
    assert_times(scene.times(OTHER), [1, 1, 1])
