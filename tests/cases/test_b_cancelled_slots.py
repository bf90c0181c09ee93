"""B. Slots after cancel, kill and delete; cancelled runs that would still run."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from pyrula.testing import START
from pyrula.workflows import Limit, Rate, Retry
from tests.cases.scene import Bystander, Scene, assert_times


def stubborn(scene: Scene, seconds: float) -> Any:
    """A body that needs so many seconds to stop."""

    async def body(ctx: Any, k: str, n: int = 0) -> None:
        with scene.seat(ctx, k, n):
            try:
                await scene.env.sleep(1000 if k == "k" else 0)
            except asyncio.CancelledError:
                await scene.env.sleep(seconds)
                raise

    return body


@pytest.mark.parametrize("stops_in", [0, 3])
async def test_case_007_cancelled_runs_give_their_slots_back_once_their_bodies_have_stopped(
    scene: Scene, bystander: Bystander, stops_in: int
) -> None:
    scene.declare(concurrency=Limit("k", 2), body=stubborn(scene, stops_in))
    await scene.work()
    ids = await scene.submit(4)
    await bystander.queue()
    await scene.reach(1)
    assert await scene.client.cancel_many(ids[:2]) == [True, True]
    await scene.reach(10)
    assert_times(scene.times(), [0, 0, 1 + stops_in, 1 + stops_in])
    assert await scene.executing() == 2
    assert scene.peaks["k"] == 2
    assert [await scene.was_cancelled(run_id) for run_id in ids[:2]] == [True, True]
    await scene.client.cancel_many(ids[2:])
    await scene.reach(20)
    assert await scene.executing() == 0


async def test_case_009_cancelling_the_running_one_lets_the_queued_ones_run_in_order(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(concurrency=Limit("k", 1))
    await scene.work()
    ids = await scene.submit(4, seconds=10)
    await bystander.queue()
    await scene.reach(1)
    await scene.client.cancel(ids[0])
    await scene.reach(50)
    assert scene.order() == ids
    assert_times(scene.times(), [0, 1, 11, 21])
    assert scene.peaks["k"] == 1


async def test_case_012_a_cancelled_orphan_ends_with_its_lease_and_is_not_started_again(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(concurrency=Limit("k", 1))
    dead = await scene.work()
    first = await scene.one(seconds=100)
    await scene.reach(5)
    await scene.env.kill(dead)
    second = await scene.one()
    await scene.work()
    await bystander.queue()
    await scene.reach(10)
    assert await scene.client.cancel(first)
    await scene.reach(34.9)
    assert await scene.state(first) == "executing"
    await scene.reach(35.001)
    assert await scene.state(first) == "cancelled"
    assert await scene.was_cancelled(first)
    await scene.reach(100)
    assert_times(scene.started(first), [0])
    assert_times(scene.started(second), [35])


@pytest.mark.parametrize("option", [{"delay": 60}, {"run_at": START + timedelta(seconds=60)}])
async def test_case_014_a_run_cancelled_before_it_is_due_never_starts(
    scene: Scene, bystander: Bystander, option: dict[str, Any]
) -> None:
    scene.declare(concurrency=Limit("k", 1), rate_limit=Rate("k", 0.001, 5))
    await scene.work()
    run_id = await scene.one(options=option)
    await bystander.queue()
    await scene.reach(10)
    assert await scene.client.cancel(run_id)
    assert await scene.was_cancelled(run_id)
    await scene.reach(200)
    assert scene.times() == []
    assert [(gate.in_use, gate.tokens) for gate in await scene.client.gates(key="k")] in (
        [],
        [(0, None), (0, 5)],
    )


async def test_case_014_a_run_cancelled_in_its_back_off_never_starts_again(
    scene: Scene, bystander: Bystander
) -> None:
    async def body(ctx: Any, k: str) -> None:
        with scene.seat(ctx, k):
            if k == "k":
                raise RuntimeError("the first attempt fails")

    scene.declare(
        body=body,
        concurrency=Limit("k", 1),
        rate_limit=Rate("k", 0.0001, 5),
        retry=Retry(2, initial_seconds=60, jitter=0),
    )
    await scene.work()
    run_id = await scene.one()
    await bystander.queue()
    await scene.reach(10)
    assert await scene.state(run_id) == "parked"
    assert await scene.client.cancel(run_id)
    assert await scene.was_cancelled(run_id)
    await scene.reach(200)
    assert_times(scene.times(), [0])
    assert [(gate.in_use, gate.tokens) for gate in await scene.client.gates(key="k")] == [(0, None), (0, 4)]
