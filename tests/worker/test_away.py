"""A store that is away for a while: what a body needs of it is waited for."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pyrula.errors import RunFailed, ShardMismatch, StoreBusy, StoreUnavailable
from pyrula.workflows.client import WorkflowClient
from pyrula.workflows.worker import Worker
from pyrula.workflows.workflow import Registry, workflow
from tests.worker.conftest import fails


async def test_a_step_outlives_a_store_that_is_busy(
    store: Any, client: WorkflowClient, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []

    @workflow(registry=registry)
    async def body(ctx: Any) -> int:
        async def one() -> int:
            ran.append(1)
            return 1

        value: int = await ctx.step(one)
        return value

    left = fails(store, "record", StoreBusy("locked"), StoreBusy("locked"))
    async with Worker(store, registry):
        assert await client.execute("body") == 1
    assert ran == [1] and left == []
    (told,) = [each.message for each in caplog.records if each.levelno >= logging.WARNING]
    assert told == "the store can't do for now what run 1 of shard 0 needs: locked"


@pytest.mark.parametrize("call", ["run_child", "start_child"])
async def test_a_child_is_waited_for_while_the_store_is_away(
    store: Any, client: WorkflowClient, registry: Registry, call: str
) -> None:
    ran: list[str] = []

    @workflow(registry=registry)
    async def leaf(ctx: Any) -> str:
        ran.append(ctx.run_id)
        return str(ctx.run_id)

    @workflow(registry=registry)
    async def top(ctx: Any) -> str:
        child: str = await getattr(ctx, call)("leaf")
        return child

    submit, failures = store.submit, [StoreUnavailable("gone"), StoreBusy("locked")]
    run_id = await client.submit("top")

    async def failing(submissions: Any) -> Any:
        answers = await submit(submissions)  # it may be stored though it was not told
        if failures:
            raise failures.pop()
        return answers

    store.submit = failing
    async with Worker(store, registry):
        child = await client.result(run_id, timeout=10)
        await client.result(child, timeout=10)
    assert ran == [child] and failures == []


async def test_a_child_that_cannot_be_placed_fails_its_run(
    store: Any, client: WorkflowClient, registry: Registry
) -> None:
    @workflow(registry=registry)
    async def top(ctx: Any) -> None:
        await ctx.run_child("top")

    run_id = await client.submit("top")

    fails(store, "submit", ShardMismatch("its runs are elsewhere"))
    async with Worker(store, registry):
        with pytest.raises(RunFailed, match="elsewhere"):
            await client.result(run_id, timeout=10)
