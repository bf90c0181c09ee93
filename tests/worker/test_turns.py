"""A worker that takes runs, is full, is idle, is told to cancel, and meets a store that fails."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from pyrula.errors import ConfigurationError, RunCancelled, RunFailed, StoreBusy
from pyrula.limiters import PollRate
from pyrula.policies import Limit, Rate, Retry
from pyrula.store.protocol import Store
from pyrula.workflows.client import WorkflowClient
from pyrula.workflows.worker import Worker
from pyrula.workflows.workflow import Registry, workflow
from tests.worker.conftest import counted, fails, until


@pytest.fixture
def gate(registry: Registry) -> asyncio.Event:
    """Set, it lets the runs of `long` end."""
    gate = asyncio.Event()

    @workflow(registry=registry)
    async def long(ctx: Any) -> None:
        await gate.wait()

    return gate


async def test_a_run_is_executed_and_its_result_handed_in(
    store: Store, client: WorkflowClient, registry: Registry
) -> None:
    @workflow(registry=registry)
    async def add(ctx: Any, a: int, b: int) -> int:
        return a + b

    async with Worker(store, registry):
        assert await client.execute("add", {"a": 1, "b": 2}) == 3


async def test_runs_that_wait_sleep_and_have_children_go_through(
    store: Store, client: WorkflowClient, registry: Registry
) -> None:
    @workflow(registry=registry)
    async def child(ctx: Any, n: int) -> int:
        await ctx.sleep(0.02)
        return n * n

    @workflow(registry=registry)
    async def parent(ctx: Any) -> list[Any]:
        squares = await asyncio.gather(*(ctx.run_child(child, {"n": n}) for n in range(4)))
        event = await ctx.wait_for_event("go", timeout=20)
        return [*squares, event, await ctx.step(lambda: "threaded", name="t")]

    async with Worker(store, registry):
        run_id = await client.submit(parent)
        await client.send_event(run_id, "go", {"n": 1})
        assert await client.result(run_id, timeout=10) == [0, 1, 4, 9, {"n": 1}, "threaded"]
    states = {run.state for run in await client.runs()}
    assert states == {"completed"}


async def test_a_child_that_fails_raises_in_its_parent(
    store: Store, client: WorkflowClient, registry: Registry
) -> None:
    @workflow(registry=registry)
    async def child(ctx: Any) -> None:
        raise ValueError("no")

    @workflow(registry=registry)
    async def parent(ctx: Any) -> str:
        try:
            await ctx.run_child("child")
        except RunFailed as error:
            return f"{error.error and error.error['type']}"
        return "?"

    async with Worker(store, registry):
        assert await client.execute("parent") == "ValueError"


async def test_a_failed_attempt_is_made_again(
    store: Store, client: WorkflowClient, registry: Registry
) -> None:
    @workflow(registry=registry, retry=Retry(max_attempts=3, initial_seconds=0.01))
    async def flaky(ctx: Any) -> int:
        async def third() -> int:
            if ctx.attempt < 3:
                raise OSError("again")
            return int(ctx.attempt)

        attempt: int = await ctx.step(third)
        return attempt

    async with Worker(store, registry):
        assert await client.execute("flaky") == 3


async def test_drain_executes_what_is_due_and_leaves_what_is_parked(
    store: Store, client: WorkflowClient, registry: Registry
) -> None:
    @workflow(registry=registry, concurrency=Limit(key="k", max=1))
    async def work(ctx: Any, k: str, long: bool = False) -> None:
        if long:
            await ctx.sleep(3600)

    ids = await client.submit_many("work", [{"k": "a"}, {"k": "a"}, {"k": "b", "long": True}])
    await Worker(store, registry).drain()
    assert [run.state for run in [await client.get(one) for one in ids]] == [
        "completed",
        "completed",
        "parked",
    ]


async def test_a_full_worker_runs_a_hundred_in_rounds_without_a_tick_between(
    store: Store, client: WorkflowClient, registry: Registry
) -> None:  # field report 64
    @workflow(registry=registry)
    async def brief(ctx: Any) -> None:
        await asyncio.sleep(0.001)

    await client.submit_many("brief", [{}] * 100)
    began = time.monotonic()
    await Worker(store, registry, max_concurrent_runs=10).drain()
    assert time.monotonic() - began < 3
    assert {run.state for run in await client.runs(limit=200)} == {"completed"}


@pytest.mark.parametrize("held_by", ["max_concurrent_runs", "limiter"])
async def test_a_cancel_and_heartbeats_reach_a_worker_that_takes_no_more(
    store: Store, client: WorkflowClient, registry: Registry, held_by: str
) -> None:  # field report 168
    stopped: list[float] = []

    @workflow(registry=registry)
    async def long(ctx: Any) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(time.monotonic())

    options: dict[str, Any] = (
        {"max_concurrent_runs": 1}
        if held_by == "max_concurrent_runs"
        else {"limits": {"worker": {"workflow": (1, None)}}}
    )
    with counted(store, "heartbeat") as beats:
        async with Worker(store, registry, lease_seconds=0.3, **options) as worker:
            run_id = await client.submit("long")
            other = await client.submit("long")
            await until(lambda: worker.executing == 1)
            before = len(beats)
            await asyncio.sleep(0.35)
            assert len(beats) - before >= 2
            asked = time.monotonic()
            await client.cancel(run_id)
            await until(lambda: stopped, 1)
            assert stopped[0] - asked < 1
            with pytest.raises(RunCancelled):
                await client.result(run_id, timeout=2)
            await until(lambda: worker.executing == 1, 2)
            await client.cancel(other)


async def test_an_idle_worker_takes_no_turns(
    store: Store, client: WorkflowClient, registry: Registry
) -> None:
    @workflow(registry=registry, rate_limit=Rate(key=None, per_second=0.001))
    async def rare(ctx: Any) -> None: ...

    async with Worker(store, registry) as worker:
        await client.execute("rare")
        await client.submit("rare")
        await until(lambda: worker.idle)
        await asyncio.sleep(0.1)
        with counted(store, "turn") as turns:
            await asyncio.sleep(0.4)
        assert len(turns) <= 1
        assert worker.idle and worker.executing == 0


async def test_a_full_worker_does_not_turn_with_every_submit(
    store: Store, client: WorkflowClient, registry: Registry, gate: asyncio.Event
) -> None:
    async with Worker(store, registry, max_concurrent_runs=1) as worker:
        await client.submit("long")
        await until(lambda: worker.executing == 1)
        with counted(store, "turn") as turns:
            for _ in range(100):
                await client.submit("long")
                await asyncio.sleep(0.002)
        assert len(turns) < 20
        gate.set()


async def test_what_ended_is_handed_in_again_when_the_store_would_not_take_it(
    store: Any, client: WorkflowClient, registry: Registry
) -> None:
    ran: list[int] = []

    @workflow(registry=registry)
    async def once(ctx: Any) -> str:
        ran.append(1)
        return "done"

    busy, disk = StoreBusy("locked"), OSError("disk")
    left = fails(store, "turn", busy, disk, busy, when=lambda request: request.outcomes)
    async with Worker(store, registry):
        assert await client.execute("once") == "done"
    assert ran == [1] and left == []


async def test_limiters_hold_a_worker_and_can_be_changed_while_it_runs(
    store: Store, client: WorkflowClient, registry: Registry, gate: asyncio.Event
) -> None:
    async with Worker(store, registry, limits={"worker": {"workflow": (2, None)}}) as worker:
        await client.submit_many("long", [{}] * 5)
        await until(lambda: worker.executing == 2)
        await asyncio.sleep(0.05)
        assert worker.executing == 2
        worker.set_limiter_config(limits={"worker": {"workflow": (4, None)}})
        await until(lambda: worker.executing == 4, 2)
        assert worker.get_limiter_config().limits["worker"]["workflow"] == (4, None)
        worker.set_limiter_config(limits={})
        await until(lambda: worker.executing == 5, 2)
        assert worker.stats().limiters.concurrency["workflow"] == 5
        gate.set()
        await until(lambda: worker.executing == 0)
        assert worker.stats().limiters.concurrency["workflow"] == 0


async def test_a_poll_rate_spaces_the_requests_for_runs(
    store: Store, client: WorkflowClient, registry: Registry
) -> None:
    at: list[float] = []

    @workflow(registry=registry)
    async def note(ctx: Any) -> None:
        at.append(time.monotonic())

    await client.submit_many("note", [{}] * 4)
    await asyncio.wait_for(
        Worker(store, registry, task_poller_limiter=PollRate(limit=10, time_window=1)).drain(), 5
    )
    assert at[-1] - at[0] >= 0.29


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("max_concurrent_runs", 0),
        ("max_concurrent_runs", True),
        ("lease_seconds", 0),
        ("lease_seconds", 0.01),
        ("stall_seconds", -1),
        ("grace_seconds", float("nan")),
    ],
)
async def test_a_setting_that_cannot_be_kept_is_refused_by_name(
    store: Store, argument: str, value: Any
) -> None:
    with pytest.raises(ConfigurationError, match=f"Worker: {argument} is"):
        Worker(store, Registry(), **{argument: value})


async def test_a_worker_runs_once_at_a_time(store: Store, registry: Registry) -> None:
    async with Worker(store, registry) as worker:
        with pytest.raises(RuntimeError, match="runs already"):
            await worker.run()


async def test_an_outcome_that_no_store_can_take_holds_up_no_other_run(
    store: Store, client: WorkflowClient, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault nobody foresaw, planted where a result is written; its neighbours end in the same turn."""

    @workflow(registry=registry, concurrency=Limit(key="key", max=1))
    async def give(ctx: Any, key: str) -> str:
        return key

    take = type(store).turn

    async def turn(self: Store, request: Any) -> Any:
        if any(getattr(outcome, "result", b"") == b'"poison"' for _, outcome in request.outcomes):
            raise OverflowError("no such number")
        return await take(self, request)

    monkeypatch.setattr(type(store), "turn", turn)
    ids = await client.submit_many("give", [{"key": key} for key in ("a", "poison", "b", "poison", "c")])
    async with Worker(store, registry, max_concurrent_runs=5):
        results = [await client.result(ids[n], timeout=10) for n in (0, 2, 4)]
        assert results == ["a", "b", "c"]
        for poisoned in (ids[1], ids[3]):
            with pytest.raises(
                RunFailed, match="ended as Completed, which could not be stored: OverflowError"
            ):
                await client.result(poisoned, timeout=10)
        assert await client.execute("give", {"key": "d"}) == "d"
    assert (await client.gates())[0].in_use == 0


async def test_a_store_that_fails_for_all_loses_no_outcome(
    store: Store, client: WorkflowClient, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    @workflow(registry=registry)
    async def give(ctx: Any, key: str) -> str:
        return key

    take, broken = type(store).turn, []

    async def turn(self: Store, request: Any) -> Any:
        if (request.outcomes and not broken) or 0 < len(broken) < 5:
            broken.append(request)
            raise OverflowError("a fault of the store")
        return await take(self, request)

    monkeypatch.setattr(type(store), "turn", turn)
    ids = await client.submit_many("give", [{"key": key} for key in "abc"])
    async with Worker(store, registry):
        assert [await client.result(run_id, timeout=10) for run_id in ids] == ["a", "b", "c"]
    assert len(broken) == 5
