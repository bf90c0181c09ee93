"""The figures as OpenTelemetry exports them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricsData
from prometheus_client.parser import text_string_to_metric_families

from pyrula.clock import SECOND
from pyrula.errors import StoreUnavailable
from pyrula.store.open import open_store
from pyrula.telemetry import Counts, observed
from pyrula.telemetry.meters import Meters
from pyrula.telemetry.wrapped import Wrapped
from pyrula.testing import VirtualClock
from pyrula.web.metrics import Metrics
from pyrula.workflows import Context, Limit, Registry, Retry, Worker, WorkflowClient, workflow
from tests.telemetry.test_counts import registry
from tests.web.until import until


def told(reader: InMemoryMetricReader) -> dict[tuple[str, ...], float]:
    """(name, attribute values in the order of their names …) → value."""
    data = reader.get_metrics_data()
    assert isinstance(data, MetricsData)
    return {
        (metric.name, *(str(value) for _, value in sorted((point.attributes or {}).items()))): point.value  # type: ignore[union-attr]  # counters and gauges have one
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


async def test_counters_and_the_stores_gauges_are_exported() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    counts = Counts()
    meters = Meters(counts, provider)
    async with open_store("sqlite://") as plain:
        store = observed(plain, counts)
        client = WorkflowClient(store, registry)
        async with Worker(store, registry, grace_seconds=0):
            await client.execute("work", {"tenant": "a"}, timeout=20)
            await client.submit_many(
                "work", [{"tenant": "b", "wait": True}, {"tenant": "b"}, {"tenant": "c"}]
            )
            await client.trigger("digest", {"user": "u1"})
            watching = asyncio.ensure_future(meters.watch(store))

            def all_is_seen() -> bool:
                return counts.starts["work"] == 3 and counts.outcomes["work", "completed"] == 2

            await until(all_is_seen)
            await meters.look(store)
            found = told(reader)
            watching.cancel()
            await client.cancel_many([run.run_id for run in await client.runs(state="queued")])
    assert found["pyrula.claims", "work"] == found["pyrula.starts", "work"] == 3
    assert found["pyrula.outcomes", "completed", "work"] == 2
    assert found["pyrula.runs", "executing", "work"] == 1
    assert found["pyrula.waiting_runs", "limit", "work.limit", "work"] == 1
    assert found["pyrula.buffers", "digest"] == 1
    assert found["pyrula.workers",] == 1
    assert found["pyrula.turn_seconds.count",] > 0
    assert not {value for name in found for value in name} & {"a", "b", "c", "u1"}


def scraped(text: bytes) -> Iterator[tuple[str, ...]]:
    """The series of /metrics, named as OpenTelemetry names them; a label without a value is none there."""
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            part = sample.name.removeprefix(family.name).strip("_").replace("total", "")
            name = ".".join(word for word in (family.name.replace("_", ".", 1), part) if word)
            yield (name, *(value for _, value in sorted(sample.labels.items()) if value))


async def test_what_is_scraped_is_exported_and_no_more() -> None:
    registry = Registry()

    @workflow(registry=registry, concurrency=Limit("tenant", 1), retry=Retry(2, initial_seconds=60))
    async def calls(ctx: Context, tenant: str) -> None:
        if tenant == "fails":
            raise OSError("no line")
        await ctx.wait_for_event("go") if tenant == "waits" else await asyncio.Event().wait()

    reader, counts = InMemoryMetricReader(), Counts()
    meters = Meters(counts, MeterProvider([reader]))
    async with open_store("sqlite://") as plain:
        store = observed(plain, counts)
        client = WorkflowClient(store, registry)
        async with Worker(store, registry, grace_seconds=0):
            await client.submit_many(
                "calls", [{"tenant": who} for who in ("fails", "waits", "works", "works")]
            )
            await client.submit("calls", {"tenant": "later"}, delay=60)

            async def all_is_seen() -> bool:
                parked = (await plain.overview())["parked"]
                return parked == {"delay": 1, "retry": 1, "wait": 1} and counts.starts["calls"] == 3

            await until(all_is_seen)
            await meters.look(plain)
            exported, scrape = set(told(reader)), set(scraped(await Metrics(counts).render(plain)))
    assert exported == scrape
    for state in ("delayed", "parked_retry", "parked_wait"):
        assert ("pyrula.runs", state) in exported
    assert ("pyrula.turn_seconds.bucket", "+Inf") in exported


class _Away(Wrapped):
    """A store that can't be reached while it is `away`."""

    away = False

    async def overview(self) -> dict[str, Any]:
        if self.away:
            raise StoreUnavailable("no answer")
        return await self._store.overview()


async def test_a_store_that_is_away_is_looked_at_again_and_nothing_old_is_told_meanwhile() -> None:
    reader, clock = InMemoryMetricReader(), VirtualClock()
    meters = Meters(Counts(), MeterProvider([reader]))
    async with open_store("sqlite://", clock=clock) as plain:
        store: Any = _Away(plain)
        watching = asyncio.ensure_future(meters.watch(store))

        async def then(there: bool) -> None:
            await until(lambda: (("pyrula.workers",) in told(reader)) == there)
            await until(lambda: clock.next_due() is not None)  # it waits for its next look

        await then(True)
        for away in (True, False):
            store.away = away
            clock.move(clock.monotonic() + 15 * SECOND)
            await then(not away)
        watching.cancel()
