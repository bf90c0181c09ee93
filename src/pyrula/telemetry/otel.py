"""Traces (extra `otel`): one span for each attempt of a run and one for each try of a step; the submit's context is
carried to the run, whoever executes it, and a child's is its parent's."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import msgspec
from opentelemetry import trace
from opentelemetry.context import Context, attach
from opentelemetry.propagate import extract, inject
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider

from pyrula.model.lease import Lease
from pyrula.model.outcome import Failed, Outcome, Retry
from pyrula.store.protocol import Claim, Store, Submission, Submitted

_NAME = "pyrula"
_NOWHERE = Context()
_NOTHING = contextlib.nullcontext()


class Tracing:
    """What a worker is given: `Worker(store, tracer=Tracing())`. provider: the global one if left out."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer(_NAME, tracer_provider=provider)
        self._spans: dict[Lease, Span] = {}

    def began(self, claim: Claim, context: contextvars.Context) -> None:
        """Open the span of an attempt, under the submit's, as the current one of what its body runs in."""
        span = self._tracer.start_span(
            f"run {claim.workflow}",
            context=_NOWHERE if claim.context is None else extract(_decode(claim.context)),
            kind=SpanKind.CONSUMER,
            attributes={
                "pyrula.run_id": claim.run_id,
                "pyrula.workflow": claim.workflow,
                "pyrula.attempt": claim.attempt,
                "pyrula.resumed": claim.started_at is not None,
            },
        )
        if span.is_recording():
            self._spans[claim.lease] = span
        context.run(attach, trace.set_span_in_context(span))

    def ended(self, claim: Claim, outcome: Outcome | None) -> None:
        """Close it, with what came of it."""
        span = self._spans.pop(claim.lease, None)
        if span is None:
            return
        span.set_attribute("pyrula.outcome", "lost" if outcome is None else type(outcome).__name__.lower())
        if isinstance(outcome, (Failed, Retry)):
            error = msgspec.json.decode(outcome.error)
            span.set_status(Status(StatusCode.ERROR, f"{error.get('type')}: {error.get('message')}"))
        span.end()

    def step(self, claim: Claim, name: str) -> AbstractContextManager[object]:
        """A span around one try of a step, current in it; what it raises is recorded. None where the attempt's own
        is not sampled: most runs of a busy system, which then cost next to nothing."""
        if claim.lease not in self._spans:
            return _NOTHING
        return self._tracer.start_as_current_span(
            f"step {name}", attributes={"pyrula.run_id": claim.run_id, "pyrula.step": name}
        )


class _Traced:
    """A store whose submits carry the context of whoever submits."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def submit(self, submissions: Sequence[Submission]) -> list[Submitted]:
        context = _current()
        if context is not None:
            submissions = [
                each if each.context is not None else msgspec.structs.replace(each, context=context)
                for each in submissions
            ]
        return await self._store.submit(submissions)


def traced(store: Store) -> Store:
    """`store`, with the current trace context on every run that is submitted through it, children included."""
    return cast("Store", _Traced(store))


def _current() -> bytes | None:
    carrier: dict[str, str] = {}
    inject(carrier)
    return msgspec.json.encode(carrier) if carrier else None


def _decode(context: bytes) -> dict[str, str]:
    try:
        return msgspec.json.decode(context, type=dict[str, str])
    except msgspec.DecodeError:  # somebody else's submit
        return {}
