"""Traces: a span for each attempt and step, under the submit's."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from pyrula.store.open import open_store
from pyrula.store.protocol import Store
from pyrula.telemetry.otel import Tracing, traced
from pyrula.workflows import Context, Registry, Retry, RunFailed, Worker, WorkflowClient, workflow

registry = Registry()
provider = TracerProvider()
tracer = provider.get_tracer("tests")


@workflow(registry=registry)
async def parent(ctx: Context, n: int) -> int:
    with tracer.start_as_current_span("the body's own"):
        return int(await ctx.run_child("child", {"n": n}))


@workflow(registry=registry)
async def child(ctx: Context, n: int) -> int:
    return int(await ctx.step(_double, n, name="double"))


@workflow(registry=registry, retry=Retry(max_attempts=2, initial_seconds=0.001))
async def failing(ctx: Context) -> None:
    await ctx.step(_fail, name="ask the bank")


def _double(n: int) -> int:
    with tracer.start_as_current_span("inside the step"):
        return 2 * n


async def _fail() -> None:
    raise ValueError("no money")


@pytest.fixture
def spans() -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = open_store("sqlite://")
    await store.connect()
    yield traced(store)
    await store.close()


def _named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


def _under(span: ReadableSpan, above: ReadableSpan) -> bool:
    assert span.context is not None and above.context is not None
    same = span.context.trace_id == above.context.trace_id
    return same and span.parent is not None and span.parent.span_id == above.context.span_id


async def test_a_child_and_its_steps_are_in_the_trace_of_whoever_submitted_its_parent(
    store: Store, spans: InMemorySpanExporter
) -> None:
    client = WorkflowClient(store, registry)
    async with Worker(store, registry, tracer=Tracing(provider)):
        with tracer.start_as_current_span("a request"):
            run_id = await client.submit("parent", {"n": 21})
        other = await client.submit("child", {"n": 1})
        assert await client.result(run_id, 10) == 42
        assert await client.result(other, 10) == 2
    (request,) = _named(spans, "a request")
    attempts = _named(spans, "run parent")
    assert all(_under(attempt, request) for attempt in attempts)
    assert [(span.attributes or {})["pyrula.outcome"] for span in attempts] == ["parked", "completed"]
    assert _under(_named(spans, "the body's own")[0], attempts[0])
    kin, stranger = _named(spans, "run child")
    if stranger.parent is not None:
        kin, stranger = stranger, kin
    assert _under(kin, _named(spans, "the body's own")[0])
    assert stranger.parent is None
    assert {_under(step, kin) or _under(step, stranger) for step in _named(spans, "step double")} == {True}
    inside = _named(spans, "inside the step")
    steps = _named(spans, "step double")
    assert all(any(_under(span, step) for step in steps) for span in inside)


async def test_what_fails_is_an_error_in_the_trace(store: Store, spans: InMemorySpanExporter) -> None:
    client = WorkflowClient(store, registry)
    async with Worker(store, registry, tracer=Tracing(provider)):
        run_id = await client.submit("failing")
        with pytest.raises(RunFailed):
            await client.result(run_id, 10)
    first, last = _named(spans, "run failing")
    assert [(span.attributes or {})["pyrula.outcome"] for span in (first, last)] == ["retry", "failed"]
    assert {span.status.status_code for span in (first, last)} == {StatusCode.ERROR}
    assert "no money" in (last.status.description or "")
    tries = _named(spans, "step ask the bank")
    assert len(tries) == 2 and all(span.events[0].name == "exception" for span in tries)
