"""Traces: a span for each attempt and step, under the submit's."""

from __future__ import annotations

import contextlib
import contextvars
import gc
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    ParentBasedTraceIdRatio,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
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


async def _ran(given: Any, run: str, params: dict[str, Any] | None = None) -> None:
    """One run of a workflow with a tracer of this provider."""
    async with open_store("sqlite://") as plain:
        store = traced(plain)
        async with Worker(store, registry, tracer=Tracing(given)):
            await WorkflowClient(store, registry).execute(run, params, timeout=10)


@workflow(registry=registry)
async def telling(ctx: Context) -> None:
    span = trace.get_current_span()
    assert span.is_recording()
    span.set_attributes({"customer": "c1", "long": "x" * 100, "several": [1, 2]})
    span.add_event("asked", {"n": 1})
    span.add_link(span.get_span_context(), {"why": "itself"})
    span.update_name("telling a story")
    await ctx.step(_ok)
    with tracer.start_as_current_span("after the step"):
        pass


async def _ok() -> None:
    trace.get_current_span().set_status(StatusCode.OK)
    trace.get_current_span().set_status(StatusCode.ERROR, "too late: OK is final")


async def test_what_a_body_says_of_its_span_is_kept_within_the_providers_limits() -> None:
    exporter = InMemorySpanExporter()
    own = TracerProvider(span_limits=SpanLimits(max_attribute_length=20, max_span_attributes=6))
    own.add_span_processor(SimpleSpanProcessor(exporter))
    await _ran(own, "telling")
    (run,) = _named(exporter, "telling a story")
    attributes = dict(run.attributes or {})
    assert len(attributes) == 6 and attributes["long"] == "x" * 20
    assert run.events[0].name == "asked" and dict(run.events[0].attributes or {}) == {"n": 1}
    assert run.links[0].context == run.context
    assert run.resource == own.resource
    assert run.instrumentation_scope is not None and run.instrumentation_scope.name == "pyrula"
    (step,) = _named(exporter, "step _ok")
    assert step.status.status_code is StatusCode.OK
    assert run.start_time and step.start_time and step.end_time and run.end_time
    assert run.start_time <= step.start_time <= step.end_time <= run.end_time


async def test_what_is_said_of_a_span_that_is_over_changes_nothing() -> None:
    exporter, said = InMemorySpanExporter(), []
    own = TracerProvider()
    own.add_span_processor(SimpleSpanProcessor(exporter))

    async def say() -> None:
        trace.get_current_span().set_attribute("n", 1)
        said.append(trace.get_current_span())

    @workflow(name="saying", registry=registry)
    async def saying(ctx: Context) -> None:
        await ctx.step(say)
        said.append(trace.get_current_span())
        said[-1].end()

    await _ran(own, "saying")
    before = [span.to_json() for span in exporter.get_finished_spans()]
    assert len(before) == 2
    for span in said:
        span.set_attribute("late", True)
        span.add_event("late")
        span.add_link(trace.SpanContext(1, 2, False))
        span.set_status(StatusCode.ERROR)
        span.update_name("late")
        span.end()
    assert [span.to_json() for span in exporter.get_finished_spans()] == before
    assert [dict(span.attributes or {}).get("n") for span in exporter.get_finished_spans()] == [1, None]


async def test_a_run_that_is_not_sampled_leaves_no_span_nor_does_anything_below_it() -> None:
    exporter = InMemorySpanExporter()
    own = TracerProvider(sampler=ParentBased(ALWAYS_OFF))
    own.add_span_processor(SimpleSpanProcessor(exporter))
    below: list[bool] = []

    @workflow(name="unseen", registry=registry)
    async def unseen(ctx: Context) -> None:
        await ctx.step(_look_below)

    async def _look_below() -> None:
        assert trace.get_current_span().get_span_context().is_valid
        with own.get_tracer("body").start_as_current_span("below") as span:
            below.append(span.is_recording())

    await _ran(own, "unseen")
    assert below == [False] and not exporter.get_finished_spans()


async def test_a_sampler_is_asked_for_the_attempt_with_its_attributes_and_may_add_some() -> None:
    asked: list[tuple[str, Any]] = []

    class Choosing(Sampler):
        def should_sample(self, parent_context: Any, trace_id: int, name: str, *args: Any) -> SamplingResult:
            asked.append((name, args[1]["pyrula.workflow"]))
            return SamplingResult(Decision.RECORD_AND_SAMPLE, {**args[1], "chosen": "yes"})

        def get_description(self) -> str:
            return "chooses all"

    exporter = InMemorySpanExporter()
    own = TracerProvider(sampler=Choosing())
    own.add_span_processor(SimpleSpanProcessor(exporter))
    async with open_store("sqlite://") as store, Worker(store, registry, tracer=Tracing(own)):
        await WorkflowClient(store, registry).execute("failing_never", timeout=10)
    assert asked == [("run failing_never", "failing_never")]
    (run,) = _named(exporter, "run failing_never")
    assert (run.attributes or {})["chosen"] == "yes"


@workflow(registry=registry)
async def failing_never(ctx: Context) -> None:
    await ctx.step(_ok)


async def test_a_span_that_waits_for_its_export_keeps_nothing_of_the_run() -> None:
    class Own:
        pass

    exporter, kept = InMemorySpanExporter(), []
    own = TracerProvider()
    own.add_span_processor(SimpleSpanProcessor(exporter))
    variable: contextvars.ContextVar[Own] = contextvars.ContextVar("of the body")

    async def step() -> None:
        trace.get_current_span().record_exception(ValueError("told"))

    @workflow(name="with_its_own", registry=registry)
    async def with_its_own(ctx: Context) -> None:
        variable.set(Own())
        kept.append(weakref.ref(variable.get()))
        await ctx.step(step)

    await _ran(own, "with_its_own")
    gc.collect()
    assert len(exporter.get_finished_spans()) == 2
    assert [each() for each in kept] == [None]


ONE_IN_FOUR = TraceIdRatioBased(0.25)


class IdsOf(RandomIdGenerator):
    def __init__(self, low: int) -> None:
        self._low = low

    def generate_trace_id(self) -> int:
        return 7 << 64 | self._low


@pytest.mark.parametrize(
    ("sampler", "low", "recorded"),
    [  # with no parent, under one that is sampled, under one that is not
        (ParentBased(ALWAYS_ON), 5, (True, True, False)),
        (ParentBased(ALWAYS_OFF), 5, (False, True, False)),
        (ALWAYS_ON, 5, (True, True, True)),
        (ALWAYS_OFF, 5, (False, False, False)),
        (ParentBasedTraceIdRatio(0.25), ONE_IN_FOUR.bound - 1, (True, True, False)),
        (ParentBasedTraceIdRatio(0.25), ONE_IN_FOUR.bound, (False, True, False)),
        (ONE_IN_FOUR, ONE_IN_FOUR.bound - 1, (True, True, True)),
        (ONE_IN_FOUR, ONE_IN_FOUR.bound, (False, False, False)),
        (ParentBased(ALWAYS_ON, remote_parent_not_sampled=ALWAYS_ON), 5, (True, True, True)),
        (ParentBased(ALWAYS_ON, remote_parent_sampled=ALWAYS_OFF), 5, (True, False, False)),
    ],
)
async def test_what_is_recorded_is_what_the_samplers_of_the_sdk_say(
    sampler: Sampler, low: int, recorded: tuple[bool, ...]
) -> None:
    exporter = InMemorySpanExporter()
    own = TracerProvider(sampler=sampler, id_generator=IdsOf(low))
    own.add_span_processor(SimpleSpanProcessor(exporter))
    found = []
    for flags in (None, 1, 0):
        exporter.clear()
        above = trace.SpanContext(
            7 << 64 | low, 8, True, trace.TraceFlags(flags or 0), trace.TraceState([("a", "b")])
        )
        with contextlib.ExitStack() as stack:
            if flags is not None:
                stack.enter_context(trace.use_span(trace.NonRecordingSpan(above)))
            await _ran(own, "failing_never")
        spans = exporter.get_finished_spans()
        assert len(spans) in (0, 2)
        for span in spans:
            assert span.context is not None and span.context.trace_flags.sampled
            assert dict(span.context.trace_state) == ({} if flags is None else {"a": "b"})
        found.append(bool(spans))
    assert tuple(found) == recorded


async def test_a_provider_that_is_not_the_sdks_makes_the_spans_itself() -> None:
    made: list[str] = []

    class Plain(trace.NonRecordingSpan):
        def is_recording(self) -> bool:
            return True

    class OwnTracer(trace.NoOpTracer):
        def start_span(self, name: str, *args: Any, **options: Any) -> trace.Span:
            made.append(name)
            return Plain(trace.SpanContext(1, 2, False))

        @contextlib.contextmanager
        def start_as_current_span(self, name: str, *args: Any, **options: Any) -> Iterator[trace.Span]:  # type: ignore[override]  # the API's own decorator is not typed
            yield self.start_span(name)

    class OwnProvider(trace.NoOpTracerProvider):
        def get_tracer(self, *args: Any, **options: Any) -> trace.Tracer:
            return OwnTracer()

    await _ran(OwnProvider(), "failing_never")
    assert made == ["run failing_never", "step _ok"]
