"""Figures of a process and of a store, as Prometheus reads them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pyrula.limiters.events import WaitStopped
from pyrula.store.open import open_store
from pyrula.store.protocol import Store
from pyrula.telemetry import Counts, observed
from pyrula.web.metrics import Metrics
from pyrula.workflows import (
    Collect,
    Context,
    Limit,
    Rate,
    Registry,
    RunFailed,
    RunIdConflict,
    Worker,
    WorkflowClient,
    workflow,
)
from tests.web.until import until

registry = Registry()
KEYS = [f"tenant-{n}" for n in range(40)]


@workflow(
    registry=registry, concurrency=Limit(key="tenant", max=1), rate_limit=Rate(key="tenant", per_second=100)
)
async def work(ctx: Context, tenant: str, wait: bool = False, fail: bool = False) -> str:
    await ctx.step(_fetch, tenant)
    if fail:
        raise ValueError("no")
    if wait:
        await asyncio.Event().wait()
    return tenant


@workflow(registry=registry, trigger=Collect(key="user", max_events=9, window_seconds=60))
async def digest(ctx: Context, key: str, events: list[object], count: int) -> int:
    return count


def _fetch(tenant: str) -> str:
    return tenant


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = open_store("sqlite://")
    await store.connect()
    yield store
    await store.close()


async def figures(metrics: Metrics, store: Store) -> dict[tuple[str, ...], float]:
    """(name, label values in the order of their names …) → value."""
    text = (await metrics.render(store)).decode()
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def _executes(client: WorkflowClient, run_id: str) -> bool:
    return (await client.get(run_id)).state == "executing"


async def test_what_a_worker_does_is_counted_and_never_by_key(store: Store) -> None:
    counts = Counts()
    seen = observed(store, counts)
    client = WorkflowClient(seen, registry)
    async with Worker(seen, registry, grace_seconds=0):
        ids = await client.submit_many("work", [{"tenant": key} for key in KEYS])
        await asyncio.gather(*(client.result(run_id, 20) for run_id in ids))
        with pytest.raises(RunFailed):
            await client.execute("work", {"tenant": "odd", "fail": True}, timeout=20)
        held = await client.submit("work", {"tenant": "busy", "wait": True}, run_id="held")
        for tenant in (
            "busy",
            "odd",
        ):  # the same again, and another by an id that is taken: neither is one more
            with suppress(RunIdConflict):
                await client.submit("work", {"tenant": tenant, "wait": True}, run_id="held")
        await client.submit_many("work", [{"tenant": "busy"}] * 3)
        await client.trigger("digest", {"user": "u1"})
        await until(lambda: _executes(client, held))
        found = await figures(Metrics(counts), seen)
        await client.cancel_many([run.run_id for run in await client.runs(state="queued")])
    assert found["pyrula_claims_total", "work"] == found["pyrula_starts_total", "work"] == 42
    assert found["pyrula_submitted_total", "work"] == 45
    assert found["pyrula_outcomes_total", "completed", "work"] == 40
    assert found["pyrula_outcomes_total", "failed", "work"] == 1
    assert found["pyrula_steps_total", "step", "done"] in (41, 42)
    assert found["pyrula_executing_seconds_count", "work"] == 41
    assert found["pyrula_turn_seconds_count",] > 0
    assert found["pyrula_lapsed_leases_total",] == 0
    assert found["pyrula_runs", "executing", "work"] == 1
    assert found["pyrula_runs", "queued", ""] == 3
    assert found["pyrula_waiting_runs", "limit", "work.limit", "work"] == 3
    assert 0 <= found["pyrula_waiting_oldest_seconds", "limit", "work.limit", "work"] < 20
    assert found["pyrula_buffers", "digest"] == found["pyrula_buffered_events", "digest"] == 1
    assert found["pyrula_workers",] == 1
    labels = {value for name in found for value in name[1:]}
    assert not labels & {*KEYS, "busy", "odd", "u1"}
    assert len(found) < 90  # 41 keys were in play


async def test_lost_leases_and_limiter_waits_are_counted(store: Store) -> None:
    counts = Counts()
    counts.limited(
        WaitStopped(
            worker_id="w",
            cluster="c",
            limitable="workflow",
            limited_by={("os", "mem"): 2.0, ("worker", "workflow"): 0.5},
            at=0,
        )
    )
    counts.limited(
        WaitStopped(
            worker_id="w", cluster="c", limitable="workflow", limited_by={("os", ("disk", "/")): 1.0}, at=0
        )
    )
    counts.lapses = 2
    found = await figures(Metrics(counts), store)
    assert found["pyrula_limiter_wait_seconds_total", "os", "mem"] == 2.0
    assert found["pyrula_limiter_wait_seconds_total", "os", "disk"] == 1.0
    assert found["pyrula_limiter_wait_seconds_total", "worker", "workflow"] == 0.5
    assert found["pyrula_lapsed_leases_total",] == 2


async def test_a_store_that_nobody_works_on_says_so(store: Store) -> None:
    await WorkflowClient(store, registry).submit_many("work", [{"tenant": "a"}, {"tenant": "b"}])
    found = await figures(Metrics(), store)
    assert found["pyrula_workers",] == 0
    assert found["pyrula_waiting_runs", "turn", "", ""] == 2
    assert not [name for name in found if name[0].startswith("pyrula_turn")]
