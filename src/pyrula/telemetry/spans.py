"""Spans that cost a busy worker little: what the SDK's own spans do, with nothing made before it is needed.

The SDK spends about 30 µs on a span: a lock, bounded containers, attributes checked one by one, a sampler asked again
for what its parent settled. Here a span is a few fields until it ends; then it goes to the provider's processors as
the `ReadableSpan` that it is.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, Tracer
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, Sampler, StaticSampler
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    get_current_span,
)

from pyrula.clock import Clock
from pyrula.telemetry.current import with_current
from pyrula.telemetry.trouble import Trouble

_FLAGS = tuple(map(TraceFlags, range(4)))
"""By value: sampled or not, with a random trace id or not."""
_UNSET = Status(StatusCode.UNSET)
_INTERNAL, _SAMPLE, _DROP = SpanKind.INTERNAL, Decision.RECORD_AND_SAMPLE, Decision.DROP
"""Looked up once: to ask an enum for its member is a call."""
_NO_STATE = TraceState()
_AS_EXPECTED = tuple.__new__(SpanContext, (1, 2, False, _FLAGS[1], _NO_STATE, True)) == SpanContext(
    1, 2, False, _FLAGS[1], _NO_STATE
)
"""Whether a span's context is the tuple that this module takes it for."""
_S = TypeVar("_S", bound="LightSpan")
_PLAIN = frozenset((str, bool, int, float))
"""Types of values that need no check."""
_DEAF = frozenset((BatchSpanProcessor, SimpleSpanProcessor))
"""Processors that do nothing when a span starts."""


class LightSpan(Span, ReadableSpan):
    """A span of the API, all of it, that is recorded. What most spans never have is made when they do. Once it has
    ended nothing changes it, and processors and exporters are given it as it is."""

    _instrumentation_info = None
    _events: Any = ()
    _links: Any = ()
    _status = _UNSET
    _plain = True

    def __init__(
        self,
        spans: Spans,
        name: str,
        kind: SpanKind,
        context: SpanContext,
        parent: SpanContext | None,
        attributes: dict[str, Any],
    ) -> None:
        self._spans, self._name, self._kind = spans, name, kind
        self._context: SpanContext = context
        self._parent = parent
        self._resource, self._instrumentation_scope = spans.resource, spans.scope
        self._attributes: Any = attributes
        self._open = True
        self._end_time = None
        self._start_time = spans.now()

    def get_span_context(self) -> SpanContext:
        return self._context

    def is_recording(self) -> bool:
        return self._open

    def set_attribute(self, key: str, value: Any) -> None:
        if self._open:
            self._attributes[key] = value
            self._plain = self._plain and type(value) in _PLAIN

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        for key, value in attributes.items():
            self.set_attribute(key, value)

    def add_event(
        self, name: str, attributes: Mapping[str, Any] | None = None, timestamp: int | None = None
    ) -> None:
        if self._open:
            self._events = self._events or []
            self._events.append(Event(name, self._spans.bounded(attributes, event=True), timestamp))

    def add_link(self, context: SpanContext, attributes: Mapping[str, Any] | None = None) -> None:
        if self._open and context.is_valid:
            self._links = self._links or []
            self._links.append(Link(context, self._spans.bounded(attributes, event=True)))

    def update_name(self, name: str) -> None:
        if self._open:
            self._name = name

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        given = Status(status, description) if isinstance(status, StatusCode) else status
        settled = self._status.status_code is StatusCode.OK or given.status_code is StatusCode.UNSET
        if self._open and not settled:
            self._status = given

    def record_exception(
        self,
        exception: BaseException,
        attributes: Mapping[str, Any] | None = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        kind = type(exception)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        about = {
            "exception.type": module + kind.__qualname__,
            "exception.message": str(exception),
            "exception.stacktrace": "".join(traceback.format_exception(exception)),
            "exception.escaped": str(escaped),
        }
        self.add_event("exception", {**about, **(attributes or {})}, timestamp)

    def end(self, end_time: int | None = None) -> None:
        if self._open:
            self._open = False
            self._end_time = self._spans.now() if end_time is None else end_time
            self._spans.ended(self)

    def bound(self, limits: SpanLimits) -> None:
        """Keep within what the provider allows of each."""
        most = limits.max_span_attributes
        if (
            not self._plain
            or limits.max_span_attribute_length is not None
            or (most is not None and len(self._attributes) > most)
        ):
            self._attributes = self._spans.bounded(self._attributes)
        if self._events:
            self._events = BoundedList.from_seq(limits.max_events, self._events)
        if self._links:
            self._links = BoundedList.from_seq(limits.max_links, self._links)


class StepSpan(LightSpan):
    """A span that is the current one of a block, and ends with it; what the block raises is recorded."""

    def __enter__(self) -> Span:
        self._token = attach(with_current(self, get_current()))
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        detach(self._token)
        del self._token  # it knows the run's context, which else stayed until the span is exported
        if isinstance(error, Exception):
            self.record_exception(error)
            self.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
        self.end()


class Spans:
    """Makes spans in the place of an SDK tracer, with its sampler, its ids and its processors."""

    def __init__(self, tracer: Tracer, clock: Clock) -> None:
        self._tracer, self._wall = tracer, clock.wall
        self._ids = tracer.id_generator
        self._takes_all = _takes_all(tracer.sampler)
        self._processors: Sequence[Any] = ()
        self._hear_of_starts: Sequence[Any] = ()
        self.limits: Any = tracer._span_limits
        self.scope = tracer._instrumentation_scope
        self._trouble = Trouble()
        random = getattr(self._ids, "is_trace_id_random", None)  # since 1.40
        self._root_flags = 2 if random is not None and random() else 0

    def now(self) -> int:
        """ns since 1970, as spans have it."""
        return self._wall() * 1000

    @property
    def resource(self) -> Any:
        """Whose spans these are; a fork changes it."""
        return self._tracer.resource

    def start(
        self, name: str, kind: SpanKind, context: Context, attributes: dict[str, Any]
    ) -> LightSpan | NonRecordingSpan:
        """A span under that of `context`, or the first of a trace: as the sampler says."""
        above = get_current_span(context).get_span_context() if context else None
        parent = above if above is not None and above.is_valid else None
        if parent is None:
            trace_id, flags = self._ids.generate_trace_id(), self._root_flags
        else:
            trace_id, flags = parent.trace_id, parent.trace_flags & 2
        if parent is None and self._takes_all:
            its = self._context(trace_id, _FLAGS[flags | TraceFlags.SAMPLED], _NO_STATE)
            return self._begun(LightSpan(self, name, kind, its, None, attributes), context)
        sampled = self._tracer.sampler.should_sample(context, trace_id, name, kind, attributes, ())
        if sampled.decision is _SAMPLE:
            flags |= TraceFlags.SAMPLED
        its = self._context(trace_id, _FLAGS[flags], sampled.trace_state or _NO_STATE)
        if sampled.decision is _DROP:
            return NonRecordingSpan(its)
        if sampled.attributes:  # a sampler may add some; those it was asked about are among them
            attributes = dict(sampled.attributes)
        return self._begun(LightSpan(self, name, kind, its, parent, attributes), context)

    def under(self, parent: SpanContext, name: str, attributes: dict[str, Any]) -> StepSpan:
        """A span under one that is recorded, as that is: the sampler is not asked again."""
        its = self._context(parent.trace_id, parent.trace_flags, parent.trace_state)
        return self._begun(StepSpan(self, name, _INTERNAL, its, parent, attributes), None)

    def _context(self, trace_id: int, flags: TraceFlags, state: TraceState) -> SpanContext:
        span_id = self._ids.generate_span_id()
        if _AS_EXPECTED:  # no ids to be checked that were just made
            return tuple.__new__(SpanContext, (trace_id, span_id, False, flags, state, True))
        return SpanContext(trace_id, span_id, False, flags, state)

    def _begun(self, span: _S, context: Context | None) -> _S:
        processors = getattr(self._tracer.span_processor, "_span_processors", ())
        if processors is not self._processors:  # another was added
            self._processors = processors
            self._hear_of_starts = [each for each in processors if type(each) not in _DEAF]
        for processor in self._hear_of_starts:
            processor.on_start(span, parent_context=context)
        return span

    def ended(self, span: LightSpan) -> None:
        """Hand it on. What a processor raises is not a run's, whose step this is."""
        try:
            span.bound(self.limits)
            self._tracer.span_processor.on_end(span)
        except Exception as error:
            self._trouble.tell(error)

    def bounded(self, attributes: Mapping[str, Any] | None, *, event: bool = False) -> Any:
        """Attributes as the provider's limits let them through."""
        limits = self.limits
        most = limits.max_event_attributes if event else limits.max_span_attributes
        longest = limits.max_attribute_length if event else limits.max_span_attribute_length
        return BoundedAttributes(most, dict(attributes or {}), immutable=True, max_value_len=longest)


def _takes_all(sampler: Sampler) -> bool:
    """Whether a sampler takes whatever has no parent, and adds nothing to it: then it need not be asked."""
    if type(sampler) is ParentBased:
        sampler = getattr(sampler, "_root", sampler)
    return type(sampler) is StaticSampler and getattr(sampler, "_decision", None) is _SAMPLE


def light(tracer: object, clock: Clock) -> Spans | None:
    """Spans in the place of a tracer's own; None if it is not the SDK's."""
    return Spans(tracer, clock) if isinstance(tracer, Tracer) else None
