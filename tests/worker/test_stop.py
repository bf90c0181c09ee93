"""Stopping: within the grace bodies end, after it they are handed back, and threads are waited for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest

from pyrula.policies import Limit
from pyrula.store.protocol import Store
from pyrula.testing import Environment
from pyrula.workflows.client import WorkflowClient
from pyrula.workflows.worker import Worker
from pyrula.workflows.workflow import Registry, workflow
from tests.worker.conftest import until

Executing = tuple[Worker, asyncio.Task[None], str]


@pytest.fixture
async def executing(store: Store, client: WorkflowClient, registry: Registry) -> Executing:
    """A worker, its run call, and the id of a run that it executes and that does not end by itself."""

    @workflow(registry=registry)
    async def long(ctx: Any) -> None:
        await asyncio.Event().wait()

    worker = Worker(store, registry)
    running = asyncio.ensure_future(worker.run())
    run_id = await client.submit("long")
    await until(lambda: worker.executing)
    return worker, running, run_id


async def test_bodies_that_end_within_the_grace_are_finished(
    store: Store, client: WorkflowClient, registry: Registry
) -> None:
    @workflow(registry=registry)
    async def brief(ctx: Any) -> str:
        await asyncio.sleep(0.05)
        return "finished"

    worker = Worker(store, registry)
    running = asyncio.ensure_future(worker.run())
    run_id = await client.submit("brief")
    late = None
    await until(lambda: worker.executing)
    stopping = asyncio.ensure_future(worker.stop(10))
    await asyncio.sleep(0)
    late = await client.submit("brief")
    await asyncio.gather(stopping, running)
    assert (await client.get(run_id)).state == "completed"
    assert (await client.get(late)).state == "queued"


async def test_bodies_that_outlast_the_grace_are_handed_back_with_their_slots(
    store: Store, client: WorkflowClient, registry: Registry
) -> None:  # field report 6
    gate = asyncio.Event()

    @workflow(registry=registry, concurrency=Limit(key="k", max=1))
    async def long(ctx: Any, k: str) -> int:
        await gate.wait()
        return int(ctx.attempt)

    first = Worker(store, registry)
    running = asyncio.ensure_future(first.run())
    ids = await client.submit_many("long", [{"k": "a"}, {"k": "a"}])
    await until(lambda: first.executing)
    began = time.monotonic()
    await asyncio.gather(first.stop(0.05), running)
    assert time.monotonic() - began < 2
    assert (await client.gates())[0].in_use == 0
    async with Worker(store, registry):
        gate.set()
        assert [await client.result(one, timeout=5) for one in ids] == [1, 1]


async def test_a_shorter_grace_cuts_a_longer_one_short(executing: Executing) -> None:
    worker, running, _ = executing
    patient = asyncio.ensure_future(worker.stop(3600))
    await asyncio.sleep(0)
    await asyncio.wait_for(worker.stop(0), 5)
    await asyncio.gather(patient, running)


async def test_a_cancelled_run_call_hands_back_at_once(
    store: Store, client: WorkflowClient, executing: Executing
) -> None:
    _, running, run_id = executing
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await client.get(run_id)).state == "queued"
    assert await store.workers() == []


async def test_a_thread_that_goes_on_keeps_its_slot_until_it_ends(
    store: Store, client: WorkflowClient, registry: Registry
) -> None:
    gate = threading.Event()

    @workflow(registry=registry, concurrency=Limit(key=None, max=1))
    async def threaded(ctx: Any) -> None:
        await ctx.step(lambda: gate.wait(20), name="block")

    worker = Worker(store, registry)
    running = asyncio.ensure_future(worker.run())
    await client.submit("threaded")
    await until(lambda: worker.threads)
    stopping = asyncio.ensure_future(worker.stop(0))
    await asyncio.sleep(0.2)
    assert not running.done() and (await client.gates())[0].in_use == 1
    gate.set()
    await asyncio.wait_for(asyncio.gather(stopping, running), 5)
    assert (await client.gates())[0].in_use == 0


async def test_a_body_that_catches_every_cancellation_is_given_up_in_time(registry: Registry) -> None:
    told: list[str] = []
    ends = asyncio.Event()

    @workflow(registry=registry)
    async def deaf(ctx: Any) -> None:
        while not ends.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await ends.wait()

    def give_up(reason: str) -> None:
        told.append(f"{env.now:g} s: {reason}")
        ends.set()

    async with Environment(workflows=registry, on_stuck=give_up) as env:
        run_id = await env.client.submit("deaf")
        await env.settle()
        await env.until(env.worker.stop(1))
    assert told == [
        f"31 s: stopped, but bodies of runs {run_id} go on: they catch asyncio.CancelledError and do not end"
    ]


async def test_an_abandoned_worker_writes_nothing_and_its_leases_last(
    client: WorkflowClient, executing: Executing
) -> None:
    worker, running, run_id = executing
    worker.abandon()
    await asyncio.wait((running,), timeout=5)
    assert running.done()
    assert (await client.get(run_id)).state == "executing"


@pytest.mark.parametrize("end", ["stopped", "abandoned"])
async def test_a_worker_that_ends_while_the_bodies_of_a_lost_life_do_is_not_born_again(
    store: Store, client: WorkflowClient, registry: Registry, end: str
) -> None:
    began, told, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @workflow(registry=registry)
    async def lingers(ctx: Any) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.set()
            await may_end.wait()

    worker = Worker(store, registry, lease_seconds=60)
    running = asyncio.ensure_future(worker.run())
    await client.submit("lingers")
    await began.wait()
    before = await store.workers()
    assert worker._lives is not None
    worker._lives.turns.lose("the leases could not be renewed in time")
    await told.wait()
    ending = []
    if end == "abandoned":
        worker.abandon()
    else:
        ending.append(asyncio.ensure_future(worker.stop(10)))
        await until(lambda: worker._lives is None or worker._lives.stopping)
    may_end.set()
    await asyncio.wait_for(asyncio.gather(running, *ending), 5)
    after = await store.workers()
    assert [row["incarnation"] for row in after] == (
        [row["incarnation"] for row in before] if end == "abandoned" else []
    )
