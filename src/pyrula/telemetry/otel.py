"""Traces (extra `otel`): one span for each attempt of a run and one for each try of a step; the submit's context is
carried to the run, whoever executes it, and a child's is its parent's."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from pyrula.clock import Clock, SystemClock, check_clock
from pyrula.errors import expect, missing
from pyrula.model.lease import Lease
from pyrula.model.outcome import Failed, Outcome, Retry
from pyrula.store.protocol import Claim, Store, Submission, Submitted, check_store
from pyrula.telemetry.trouble import Trouble
from pyrula.telemetry.wrapped import Wrapped

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.propagate import extract, inject
    from opentelemetry.trace import (
        Span,
        SpanKind,
        Status,
        StatusCode,
        Tracer,
        TracerProvider,
    )

    from pyrula.telemetry.current import set_current, with_current
except ModuleNotFoundError as error:
    raise missing("pyrula.telemetry.otel", error, "otel") from None

if TYPE_CHECKING:
    from pyrula.telemetry.spans import Spans

_NAME = "pyrula"
_CONSUMER = SpanKind.CONSUMER
_NOWHERE = Context()
_TOLD = {kind: kind.__name__.lower() for kind in Outcome.__subclasses__()}
"""What a trace calls an outcome."""


class Tracing:
    """What a worker is given: `Worker(store, tracer=Tracing())`. provider: the global one if left out.

    The provider's sampler is asked once for each attempt of a run; its steps are recorded where it is. With the SDK's
    provider spans are made the light way (pyrula.telemetry.spans), with another by its own tracer.
    """

    def __init__(self, provider: TracerProvider | None = None, clock: Clock | None = None) -> None:
        gives = provider is None or callable(getattr(provider, "get_tracer", None))
        expect(
            "Tracing: provider",
            provider,
            gives,
            "a TracerProvider of OpenTelemetry, or None for the global one",
        )
        check_clock("Tracing: clock", clock)
        self._provider = provider
        self._clock = clock or SystemClock()
        self._light: Spans | None = None
        self._spans: dict[Lease, Any] = {}
        self._trouble = Trouble()

    def began(self, claim: Claim, context: contextvars.Context) -> None:
        """Open the span of an attempt, under the submit's, as the current one of what its body runs in."""
        try:
            above = _NOWHERE if claim.context is None else _extracted(claim.context)
            spans = self._light or self._look()
            span: Span
            if spans is not None:
                span = spans.run(claim, above, _about)
            else:
                span = self._tracer.start_span(f"run {claim.workflow}", above, _CONSUMER, _about(claim))
            if span.is_recording():
                self._spans[claim.lease] = span
            context.run(set_current, with_current(span, above))
        except Exception as error:
            self._trouble.tell(error)

    def ended(self, claim: Claim, outcome: Outcome | None) -> None:
        """Close it, with what came of it."""
        span = self._spans.pop(claim.lease, None)
        if span is None:
            return
        told = "lost" if outcome is None else _TOLD[type(outcome)]
        if self._light is not None:
            span.told(told)
        else:
            span.set_attribute("pyrula.outcome", told)
        if isinstance(outcome, (Failed, Retry)):
            error = msgspec.json.decode(outcome.error)
            span.set_status(Status(StatusCode.ERROR, f"{error.get('type')}: {error.get('message')}"))
        try:
            span.end()
        except Exception as error:
            self._trouble.tell(error)

    def step(self, claim: Claim, name: str) -> AbstractContextManager[object] | None:
        """A span around one try of a step, current in it; what it raises is recorded. None where the attempt's own
        is not sampled: most runs of a busy system, which then cost next to nothing."""
        above = self._spans.get(claim.lease)
        if above is None:
            return None
        attributes = {"pyrula.run_id": claim.run_id, "pyrula.step": name}
        if self._light is not None:
            try:
                return self._light.under(above, f"step {name}", attributes)
            except Exception as error:
                self._trouble.tell(error)
                return None
        return self._tracer.start_as_current_span(f"step {name}", attributes=attributes)

    @property
    def _tracer(self) -> Tracer:
        return trace.get_tracer(_NAME, tracer_provider=self._provider)

    def _look(self) -> Spans | None:
        """The light way, if the provider (which may be set late) is the SDK's."""
        with contextlib.suppress(ImportError):  # the API may be there alone
            from pyrula.telemetry.spans import light

            self._light = light(self._tracer, self._clock)
        return self._light


def _about(claim: Claim) -> dict[str, Any]:
    return {
        "pyrula.run_id": claim.run_id,
        "pyrula.workflow": claim.workflow,
        "pyrula.attempt": claim.attempt,
        "pyrula.resumed": claim.started_at is not None,
    }


class _Traced(Wrapped):
    """A store whose submits carry the context of whoever submits."""

    async def submit(self, submissions: Sequence[Submission]) -> list[Submitted]:
        return await self._store.submit(_in_context(submissions))

    async def submit_in(self, connection: Any, submissions: Sequence[Submission]) -> list[Submitted]:
        return await self._store.submit_in(connection, _in_context(submissions))


def _in_context(submissions: Sequence[Submission]) -> Sequence[Submission]:
    context = _current()
    if context is None:
        return submissions
    return [
        each if each.context is not None else msgspec.structs.replace(each, context=context)
        for each in submissions
    ]


def traced(store: Store) -> Store:
    """`store`, with the current trace context on every run that is submitted through it, children included."""
    check_store("traced: store", store)
    return cast("Store", _Traced(store))


def _current() -> bytes | None:
    carrier: dict[str, str] = {}
    inject(carrier)
    return msgspec.json.encode(carrier) if carrier else None


@lru_cache(1024)
def _extracted(context: bytes) -> Context:
    """What was current at a submit; many runs may have been submitted there."""
    return extract(_decode(context))


def _decode(context: bytes) -> dict[str, str]:
    try:
        return msgspec.json.decode(context, type=dict[str, str])
    except msgspec.DecodeError:  # somebody else's submit
        return {}
