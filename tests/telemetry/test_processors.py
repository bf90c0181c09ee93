"""Traces: what a program's own span processors hear, and when."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from opentelemetry.sdk.trace import (
    ConcurrentMultiSpanProcessor,
    SpanProcessor,
    SynchronousMultiSpanProcessor,
    TracerProvider,
)
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pyrula.store.open import open_store
from pyrula.telemetry.otel import Tracing
from pyrula.workflows import Context, Registry, Worker, WorkflowClient, workflow

registry = Registry()


@workflow(registry=registry)
async def double(ctx: Context) -> None:
    await ctx.step(_ok, name="double")


async def _ok() -> None:
    pass


async def _ran(provider: TracerProvider, run: str) -> None:
    """One run of a workflow with a tracer of this provider."""
    async with open_store("sqlite://") as store, Worker(store, registry, tracer=Tracing(provider)):
        await WorkflowClient(store, registry).execute(run, timeout=10)


async def test_a_processor_hears_of_each_span_when_it_starts_and_may_add_to_it() -> None:
    class Stamping(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            span.set_attribute("stamped", True)

    exporter = InMemorySpanExporter()
    own = TracerProvider()
    own.add_span_processor(Stamping())
    own.add_span_processor(SimpleSpanProcessor(exporter))
    await _ran(own, "double")
    spans = exporter.get_finished_spans()
    assert [(span.attributes or {}).get("stamped") for span in spans] == [True, True]


async def test_a_processor_hears_of_each_span_before_it_is_over() -> None:
    class Before(SpanProcessor):
        heard: ClassVar[list[str]] = []

        def _on_ending(self, span: Any) -> None:
            self.heard.append(span.name)

    own = TracerProvider()
    own.add_span_processor(Before())
    await _ran(own, "double")
    assert Before.heard == ["step double", "run double"]


@pytest.mark.parametrize("several", [SynchronousMultiSpanProcessor, ConcurrentMultiSpanProcessor])
async def test_a_processor_that_is_added_late_gets_what_ends_from_then_on(several: Any) -> None:
    first, late = InMemorySpanExporter(), InMemorySpanExporter()
    own = TracerProvider(active_span_processor=several())
    own.add_span_processor(SimpleSpanProcessor(first))

    async def add() -> None:
        own.add_span_processor(SimpleSpanProcessor(late))

    @workflow(name="adding", registry=registry)
    async def adding(ctx: Context) -> None:
        await ctx.step(add)
        await ctx.step(_ok)

    await _ran(own, "adding")
    own.shutdown()
    every = ["step add", "step _ok", "run adding"]
    assert [span.name for span in first.get_finished_spans()] == every
    assert [span.name for span in late.get_finished_spans()] == every
