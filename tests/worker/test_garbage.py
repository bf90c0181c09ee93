"""What belongs to a run goes when the run does: no reference cycle leaves it to the garbage collector, whose walks
over a busy worker's objects would cost more than the runs."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from pyrula.admission import Floor
from pyrula.errors import RunCancelled, RunFailed, StepFailed
from pyrula.store.protocol import Store
from pyrula.workflows import Limit, Retry, Worker, workflow
from pyrula.workflows.body import Body
from pyrula.workflows.client import WorkflowClient
from pyrula.workflows.workflow import Registry

KINDS = (Body, Floor)


@pytest.fixture
def uncollected() -> Iterator[Callable[[], list[str]]]:
    """The kinds of what is over and still there, the collector being off."""
    gc.collect()
    before = {id(each) for each in gc.get_objects() if type(each) in KINDS}
    gc.disable()
    yield lambda: [
        type(each).__name__ for each in gc.get_objects() if type(each) in KINDS and id(each) not in before
    ]
    gc.enable()


async def returns(ctx: Any, n: int) -> int:
    return int(await ctx.step(_answer, 1))


async def _answer(n: int) -> int:
    return n


async def steps_in_a_thread(ctx: Any, n: int) -> int:
    return int(await ctx.step(sum, [1, 2]))


async def fails(ctx: Any, n: int) -> None:
    raise ValueError("no")


async def fails_in_a_step(ctx: Any, n: int) -> None:
    async def broken() -> None:
        raise ValueError("no")

    await ctx.step(broken)


async def goes_on_after_a_failed_step(ctx: Any, n: int) -> str:
    try:
        await fails_in_a_step(ctx, n)
    except StepFailed as error:
        return str(error)
    return ""


async def branches(ctx: Any, n: int) -> list[int]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ctx.step(_answer, number, name=f"s{number}")) for number in range(3)]
    return [task.result() for task in tasks]


async def sleeps(ctx: Any, n: int) -> None:
    await ctx.sleep(0.01)


async def times_out_in_a_step(ctx: Any, n: int) -> None:
    await ctx.step(asyncio.sleep, 10, timeout=0.01)


async def cancels_itself(ctx: Any, n: int) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    "body",
    [
        returns,
        steps_in_a_thread,
        fails,
        fails_in_a_step,
        goes_on_after_a_failed_step,
        branches,
        sleeps,
        times_out_in_a_step,
        cancels_itself,
    ],
)
async def test_a_run_that_is_over_leaves_nothing_to_the_garbage_collector(
    store: Store,
    client: WorkflowClient,
    registry: Registry,
    uncollected: Callable[[], list[str]],
    body: Callable[[Any], Awaitable[Any]],
) -> None:
    workflow(name="w", registry=registry, concurrency=Limit(key="n", max=2), retry=Retry(max_attempts=1))(
        body
    )
    await _all_ended(store, client, registry, await client.submit_many("w", [{"n": n % 2} for n in range(5)]))
    assert uncollected() == []


async def test_a_cancelled_run_leaves_nothing_to_the_garbage_collector(
    store: Store, client: WorkflowClient, registry: Registry, uncollected: Callable[[], list[str]]
) -> None:
    began = asyncio.Event()

    @workflow(name="w", registry=registry, timeout=60)
    async def w(ctx: Any) -> None:
        began.set()
        await asyncio.sleep(10)

    async with Worker(store, registry):
        run_id = await client.submit("w")
        await began.wait()
        await client.cancel(run_id)
        with pytest.raises(RunCancelled):
            await client.result(run_id)
    await asyncio.sleep(0)
    assert uncollected() == []


async def _all_ended(store: Store, client: WorkflowClient, registry: Registry, ids: list[str]) -> None:
    async with Worker(store, registry):
        for run_id in ids:
            try:
                await client.result(run_id)
            except (RunFailed, RunCancelled):
                continue
    await asyncio.sleep(0)
