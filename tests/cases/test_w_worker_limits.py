"""W. Limits of the worker itself: saturation, levels and buckets. Case 183, of kind X, on pyrula's own worker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyrula.workflows import (
    Debounce,
    Limit,
    PollRate,
    Rate,
    Registry,
    Worker,
    WorkflowClient,
    open_store,
    workflow,
)
from tests.cases.fleet import Fleet
from tests.cases.scene import Bystander, Scene, assert_times

LOOKS_AGAIN = 0.5
FULL: list[dict[str, Any]] = [{"max_concurrent_runs": 1}, {"limits": {"worker": {"workflow": (1, None)}}}]
SPENT: list[dict[str, Any]] = [
    {"limits": {"worker": {"workflow": (None, 1)}}, "limiter_time_windows": {"workflow": 600}},
    {"task_poller_limiter": PollRate(limit=1, time_window=600)},
]
"""One run more is not begun for ten minutes, though there is room for it."""


@pytest.mark.parametrize("options", FULL)
async def test_case_168_a_cancel_reaches_a_worker_that_has_no_room(
    scene: Scene, options: dict[str, Any]
) -> None:
    scene.declare()
    await scene.work(**options)
    busy, waiting = await scene.one(seconds=60), await scene.one(seconds=60)
    await scene.reach(1)
    await scene.client.cancel(busy)
    await scene.reach(2)
    assert await scene.was_cancelled(busy)
    assert scene.ends == [(pytest.approx(1, abs=1), busy)]
    assert 1 <= scene.started(waiting)[0] <= 2


@pytest.mark.parametrize("options", FULL)
async def test_case_168_a_worker_without_room_goes_on_beating(
    store_url: str, options: dict[str, Any]
) -> None:
    """On the machine's clock, where the heartbeat is the worker's own; the body outlasts the lease."""
    registry, starts, beats = Registry(), [], []
    enough = asyncio.Event()
    loop = asyncio.get_running_loop()

    @workflow(registry=registry)
    async def w(ctx: Any, waits: bool) -> None:
        starts.append(ctx.run_id)
        if waits:
            await enough.wait()

    async with open_store(store_url) as store:
        beat = store.heartbeat

        def counting(incarnation: str) -> bool:
            beats.append(incarnation)
            if len(beats) == 5:  # one each 0.4 s, so that they are later than a lease
                loop.call_soon_threadsafe(enough.set)
            return beat(incarnation)

        store.heartbeat = counting  # type: ignore[method-assign]  # counts, and passes on
        client = WorkflowClient(store, registry)
        async with Worker(store, registry, lease_seconds=1.2, **options) as worker:
            ids = [await client.submit("w", {"waits": waits}) for waits in (True, False)]
            incarnation = None
            for run_id in ids:
                await client.result(run_id, timeout=20)
                incarnation = incarnation or worker.incarnation
            assert worker.incarnation == incarnation
    assert starts == ids
    assert set(beats) == {incarnation}


@pytest.mark.parametrize("options", [*FULL, *SPENT])
async def test_case_168_a_worker_that_may_take_no_run_does_all_else(
    scene: Scene, options: dict[str, Any]
) -> None:
    """What has come due is submitted, woken, expired or taken back, though nobody may execute it yet."""

    async def sleeper(ctx: Any, k: str) -> None:
        await ctx.sleep(7)

    scene.declare(concurrency=Limit("k", 1))
    scene.declare("debounced", trigger=Debounce("k", 5))
    scene.declare("sleeper", body=sleeper)
    dead = await scene.work(lease_seconds=6)
    asleep = await scene.one("sleeper")
    orphan = await scene.one(k="orphan", seconds=100)
    await scene.env.kill(dead)
    await scene.work(**options)
    busy = await scene.one(seconds=60)
    unstarted = await scene.one(k="u", options={"expires_in": 5})
    await scene.client.trigger("debounced", {"k": "d"})
    assert await scene.states([busy, asleep, orphan]) == ["executing", "parked", "executing"]
    await scene.reach(5.5)
    assert await scene.state(unstarted) == "expired"
    assert [run.state for run in await scene.client.runs("debounced")] == ["queued"]
    await scene.reach(7.5)
    assert await scene.state(asleep) == "queued"
    assert await scene.state(orphan) == "queued"
    assert await scene.executing(key="orphan") == 0
    await scene.client.cancel(busy)
    await scene.reach(8.5)
    assert await scene.state(busy) == "cancelled"
    assert await scene.executing() == 0


async def test_case_172_a_workers_limit_is_its_own_and_a_clusters_is_shared(scene: Scene) -> None:
    scene.declare()
    for level, took in (("worker", 2), ("cluster", 4)):
        began = scene.env.now
        workers = [await scene.work(limits={level: {"workflow": (1, None)}}) for _ in range(2)]
        for _ in range(2):
            await scene.one(seconds=2)
        await scene.env.advance(10)
        assert scene.ends[-1][0] - began == pytest.approx(took, abs=LOOKS_AGAIN)
        for worker in workers:
            await scene.env.stop_worker(worker)


@pytest.mark.parametrize(("options", "together"), [({}, True), ({"max": 1}, False)])
async def test_case_172_in_two_processes_those_counters_are_apart(
    fleet: Fleet, options: dict[str, Any], together: bool
) -> None:
    """Over processes it is the store's Limit that is shared."""
    limits = {"cluster": {"workflow": [1, None]}}
    first, second = (fleet.work(limits=limits, **options) for _ in range(2))
    await fleet.ready(first, second)
    runs = [await fleet.submit(seconds=2) for _ in range(2)]
    await fleet.until(lambda: all(fleet.ends(run) for run in runs))
    assert fleet.peak("k") == (2 if together else 1)
    if together:
        assert fleet.pid_of(runs[0]) != fleet.pid_of(runs[1])


async def test_case_174_those_who_wait_for_a_token_get_it_in_order(
    scene: Scene, bystander: Bystander
) -> None:
    """With several workers at the bucket: whose look it is makes no difference."""
    scene.declare(rate_limit=Rate("k", 5, 1))
    for _ in range(3):
        await scene.work()
    ids = await scene.submit(20)
    await bystander.queue()
    await scene.reach(10)
    assert_times(scene.times(), [0.2 * number for number in range(20)])
    assert scene.order() == ids


async def test_case_174_the_polls_of_one_poller_are_even_and_in_order(scene: Scene) -> None:
    scene.declare()
    await scene.work(task_poller_limiter=PollRate(limit=5, time_window=1))
    ids = await scene.submit(20)
    await scene.reach(10)
    assert_times(scene.times(), [0.2 * number for number in range(20)])
    assert scene.order() == ids


@pytest.mark.parametrize(
    "options",
    [
        {"limits": {"worker": {"workflow": (None, 1)}}, "limiter_time_windows": {"workflow": 10}},
        {"task_poller_limiter": PollRate(limit=1, time_window=10)},
    ],
)
async def test_case_183_the_limiter_is_asked_before_the_claim(scene: Scene, options: dict[str, Any]) -> None:
    scene.declare()
    await scene.work(lease_seconds=5, **options)
    ids = await scene.submit(3, seconds=1)
    for second in range(1, 25):  # what waits for the limiter is queued, and no lease of it runs
        await scene.reach(second - 0.5)
        executing = [state for state in await scene.states(ids) if state == "executing"]
        assert len(executing) == (1 if second % 10 == 1 else 0)
    assert_times(scene.times(), [0, 10, 20])
    assert [len(scene.started(run_id)) for run_id in ids] == [1, 1, 1]
    assert [(await scene.client.get(run_id)).attempt for run_id in ids] == [1, 1, 1]
