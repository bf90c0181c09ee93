"""What metrics and traces cost: end-to-end runs a second with and without, rounds interleaved on one machine.

    python benchmarks/telemetry.py [--runs N] [--rounds N] [--json FILE]

`metrics`: every turn, claim, step and submit is counted, and /metrics is rendered once a second. With traces there is
a span for each attempt and step, handed in batches (the SDK's BatchSpanProcessor) to an exporter: `sampled` keeps one
trace in a hundred, `traces` every one, and drops them; `otlp` makes OTLP's bytes of every one and drops those, where
opentelemetry-exporter-otlp-proto-common is installed: what that costs is the exporter's. `the SDK alone`: as many spans
as `traces` makes, with the same attributes, made by the SDK's own tracer in a loop that does nothing else, for the same
processor and exporter. CPU is all threads' of the process; what another program does to the machine does not count in
it. The least of all rounds is compared.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import platform
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

try:
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
except ImportError:
    encode_spans = None

from pyrula.cli.working import spare_collector
from pyrula.store.open import open_store
from pyrula.store.protocol import Store
from pyrula.telemetry import Counts, observed
from pyrula.telemetry.otel import Tracing, traced
from pyrula.web.metrics import Metrics
from pyrula.workflows import Limit, Registry, Worker, WorkflowClient, workflow

registry = Registry()
WAYS = ("off", "metrics", "sampled", "traces", "otlp")
TRACED = ("sampled", "traces", "otlp")


@workflow(name="keyed", registry=registry, concurrency=Limit(key="tenant", max=5))
async def keyed(ctx: Any, n: int, tenant: str) -> int:
    return int(await ctx.step(_one, n))


async def _one(n: int) -> int:
    return n


class _Dropping(SpanExporter):
    """Spans end here."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class _Encoding(SpanExporter):
    """What an OTLP exporter does, but for the network."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        encode_spans(spans).SerializeToString()
        return SpanExportResult.SUCCESS


def _provider(way: str) -> TracerProvider:
    provider = TracerProvider(sampler=ParentBasedTraceIdRatio(0.01)) if way == "sampled" else TracerProvider()
    exporter = _Encoding() if way == "otlp" else _Dropping()
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=100_000))
    return provider


async def once(url: str, way: str, runs: int) -> tuple[float, float]:
    """(runs a second, CPU µs a run) of one round."""
    async with open_store(url) as plain:
        store: Store = plain
        counts, tracing, provider = Counts(), None, None
        if way != "off":
            store = observed(store, counts)
        if way in TRACED:
            provider = _provider(way)
            store, tracing = traced(store), Tracing(provider)
        client = WorkflowClient(store, registry)
        scraping = asyncio.ensure_future(_scrape(Metrics(counts), store)) if way != "off" else None
        async with Worker(store, registry, max_concurrent_runs=500, tracer=tracing):
            await _go(client, runs // 5)
            began, spent = time.perf_counter(), time.process_time()
            await _go(client, runs)
            took, spent = time.perf_counter() - began, time.process_time() - spent
        if scraping is not None:
            scraping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await scraping
        if provider is not None:
            provider.shutdown()
    return runs / took, spent / runs * 1e6


def alone(runs: int) -> float:
    """CPU µs for the spans of a run where the SDK makes them and nothing else is done."""
    provider = _provider("traces")
    tracer = provider.get_tracer("alone")
    spent = time.process_time()
    for number in range(runs):
        about = {"pyrula.run_id": f"run-{number}", "pyrula.workflow": "keyed"}
        more = {"pyrula.attempt": 1, "pyrula.resumed": False}
        run = tracer.start_span("run keyed", Context(), trace.SpanKind.CONSUMER, {**about, **more})
        token = attach(trace.set_span_in_context(run))
        step = {"pyrula.run_id": f"run-{number}", "pyrula.step": "_one"}
        with tracer.start_as_current_span("step _one", attributes=step):
            pass
        run.set_attribute("pyrula.outcome", "completed")
        run.end()
        detach(token)
    spent = time.process_time() - spent
    provider.shutdown()
    return spent / runs * 1e6


async def _scrape(metrics: Metrics, store: Store) -> None:
    while True:
        await asyncio.sleep(1)
        await metrics.render(store)


async def _go(client: WorkflowClient, runs: int) -> None:
    for start in range(0, runs, 500):
        params = [{"n": n, "tenant": f"t{n % 100}"} for n in range(start, min(runs, start + 500))]
        ids = await client.submit_many("keyed", params)
        await asyncio.gather(*(client.result(run_id) for run_id in ids))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    ways = WAYS if encode_spans is not None else WAYS[:-1]
    spare_collector()  # as `pyrula worker` does
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    bare = []
    for number in range(given.rounds):
        bare.append(alone(given.runs))
        first = number % len(ways)
        for way in ways[first:] + ways[:first]:
            with tempfile.TemporaryDirectory() as folder:
                found[way].append(asyncio.run(once(f"sqlite:///{folder}/runs.db", way, given.runs)))
    print(f"{given.rounds} rounds of {given.runs:,} runs with a limit and a step; {platform.machine()}")
    told: dict[str, Any] = {"sdk_alone_us": min(bare)}
    most, least = max(each[0] for each in found["off"]), min(each[1] for each in found["off"])
    for way, rounds in found.items():
        speed, cpu = max(each[0] for each in rounds), min(each[1] for each in rounds)
        told[way] = {
            "runs_per_second": speed,
            "of_off": speed / most,
            "cpu_us": cpu,
            "of_off_by_cpu": least / cpu,
        }
        print(
            f"{way:<8} CPU {cpu:6.0f} us a run, {least / cpu:5.2f} of off by it   "
            f"{speed:7.0f} runs/s, {speed / most:5.2f} of off"
        )
    print(f"the SDK alone: {min(bare):.0f} us of CPU for the spans of a run")
    if given.json:
        given.json.write_text(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
