"""The figures as OpenTelemetry exports them."""

from __future__ import annotations

import asyncio

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricsData

from pyrula.store.open import open_store
from pyrula.telemetry import Counts, observed
from pyrula.telemetry.meters import Meters
from pyrula.workflows import Worker, WorkflowClient
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
    assert found["pyrula.turns",] > 0
    assert not {value for name in found for value in name} & {"a", "b", "c", "u1"}
