"""A sampler, an id generator or a processor that fails costs a trace its spans, and no run anything."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult

from pyrula.telemetry.otel import Tracing
from pyrula.workflows import Context, Registry, Worker, WorkflowClient, open_store, workflow

registry = Registry()


@workflow(registry=registry)
async def double(ctx: Context, n: int) -> int:
    return int(await ctx.step(lambda: n, name="first")) + int(await ctx.step(lambda: n, name="second"))


class NoSampler(Sampler):
    def should_sample(self, *_: Any, **__: Any) -> SamplingResult:
        raise ArithmeticError("no")

    def get_description(self) -> str:
        return "fails"


class NoIds(IdGenerator):
    def generate_trace_id(self) -> int:
        raise ArithmeticError("no")

    def generate_span_id(self) -> int:
        raise ArithmeticError("no")


class IdOfOneSpan(RandomIdGenerator):
    """Fails from the first step on."""

    def __init__(self) -> None:
        self._left = 1

    def generate_span_id(self) -> int:
        self._left -= 1
        if self._left < 0:
            raise ArithmeticError("no")
        return super().generate_span_id()


class NoStart(SpanProcessor):
    def on_start(self, *_: Any, **__: Any) -> None:
        raise ArithmeticError("no")


class NoEnd(SpanProcessor):
    def on_end(self, *_: Any) -> None:
        raise ArithmeticError("no")


def with_processor(processor: SpanProcessor) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(processor)
    return provider


PROVIDERS = {
    "sampler": lambda: TracerProvider(sampler=NoSampler()),
    "ids": lambda: TracerProvider(id_generator=NoIds()),
    "ids of steps": lambda: TracerProvider(id_generator=IdOfOneSpan()),
    "on_start": lambda: with_processor(NoStart()),
    "on_end": lambda: with_processor(NoEnd()),
}


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_what_a_provider_raises_ends_no_run_and_no_worker(
    provider: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "pyrula"):
        async with open_store("sqlite://") as store:
            async with Worker(store, registry=registry, tracer=Tracing(PROVIDERS[provider]())):
                client = WorkflowClient(store, registry)
                assert [await client.execute("double", {"n": n}, timeout=10) for n in range(3)] == [0, 2, 4]
            assert await store.check() == []
    told = [record.getMessage() for record in caplog.records]
    assert told == ["a trace lacks a span, as the tracer provider's own code raised ArithmeticError: no"]
