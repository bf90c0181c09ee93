"""Spans that cost a busy worker little: what the SDK's own spans do, with nothing made before it is needed.

The SDK spends about 30 µs on a span: a lock, bounded containers, attributes checked one by one, a sampler asked again
for what its parent settled. Here a span is a few fields until it ends; then it goes to the provider's processors as
the `ReadableSpan` that it is.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context, detach
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, Tracer
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import (
    Decision,
    ParentBased,
    ParentBasedTraceIdRatio,
    Sampler,
    StaticSampler,
    TraceIdRatioBased,
)
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
from pyrula.store.protocol import Claim
from pyrula.telemetry.current import current, reset_current, set_current, with_current
from pyrula.telemetry.trouble import Trouble

_FLAGS = tuple(map(TraceFlags, range(4)))
"""By value: sampled or not, with a random trace id or not."""
_UNSET = Status(StatusCode.UNSET)
_INTERNAL, _CONSUMER = SpanKind.INTERNAL, SpanKind.CONSUMER
_SAMPLE, _DROP = Decision.RECORD_AND_SAMPLE, Decision.DROP
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
_OF_PARENTS = frozenset((ParentBased, ParentBasedTraceIdRatio))
"""Samplers that go by what is above, if anything is."""
_LOW, _MANY = (1 << 64) - 1, float("inf")


class LightSpan(Span, ReadableSpan):
    """A span of the API, all of it, that is recorded. What most spans never have is made when they do. Once it has
    ended nothing changes it, and processors and exporters are given it as it is."""

    __slots__ = (
        "_attributes",
        "_end_time",
        "_name",
        "_open",
        "_parent",
        "_spans",
        "_start_time",
        "_token",
        "context",
    )
    _kind = _INTERNAL
    _instrumentation_info = None
    _events: Any = ()
    _links: Any = ()
    _status = _UNSET
    _plain = True

    _context = property(attrgetter("context"))
    _resource = property(attrgetter("_spans.resource"))
    _instrumentation_scope = property(attrgetter("_spans.scope"))

    def __init__(
        self,
        spans: Spans,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        attributes: dict[str, Any],
    ) -> None:
        self._spans, self._name = spans, name
        self.context = context  # type: ignore[misc]  # a field where the SDK has a property, which processors ask twice
        self._parent = parent
        self._attributes: Any = attributes
        self._end_time = None
        self._open = True
        self._start_time = spans.wall() * 1000

    def get_span_context(self) -> SpanContext:
        context: SpanContext = self.context
        return context

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
            spans = self._spans
            self._end_time = spans.wall() * 1000 if end_time is None else end_time
            spans.ended(self)

    def bound(self, limits: SpanLimits, most: float) -> None:
        """Keep within what the provider allows of each; most: so many plain attributes need no look."""
        if not self._plain or len(self._attributes) > most:
            self._attributes = self._spans.bounded(self._attributes)
        if self._events:
            self._events = BoundedList.from_seq(limits.max_events, self._events)
        if self._links:
            self._links = BoundedList.from_seq(limits.max_links, self._links)


class RunSpan(LightSpan):
    """A span around an attempt of a run."""

    __slots__ = ()
    _kind = _CONSUMER


class StepSpan(LightSpan):
    """A span that is the current one of a block, and ends with it; what the block raises is recorded."""

    __slots__ = ()

    def __enter__(self) -> Span:
        self._token: Any = set_current(with_current(self, current()))
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            reset_current(self._token)
        except ValueError:  # closed from elsewhere, as what a loop leaves behind may be
            detach(self._token)  # tells it as the API does
        self._token = None  # it knows the run's context, which else stayed until the span is exported
        if error is not None and isinstance(error, Exception):
            self.record_exception(error)
            self.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
        self.end()


class Spans:
    """Makes spans in the place of an SDK tracer, with its sampler, its ids and its processors."""

    def __init__(self, tracer: Tracer, clock: Clock) -> None:
        self.wall = clock.wall
        self._tracer, self._processor = tracer, tracer.span_processor
        self._processors: Sequence[Any] | None = None
        self._hear_of_starts: Sequence[Any] = ()
        self.limits: Any = tracer._span_limits
        self.scope = tracer._instrumentation_scope
        most = self.limits.max_span_attributes
        unchecked = _MANY if most is None else most
        self._most = unchecked if self.limits.max_span_attribute_length is None else -1
        self._trouble = Trouble()
        ids = tracer.id_generator
        self._trace_id, self._span_id = ids.generate_trace_id, ids.generate_span_id
        random = getattr(ids, "is_trace_id_random", None)  # since 1.40
        self._root_flags = 2 if random is not None and random() else 0
        self._below = _below(tracer.sampler)
        self._as_parent = _as_parent(tracer.sampler)

    @property
    def resource(self) -> Any:
        """Whose spans these are; a fork changes it."""
        return self._tracer.resource

    def run(
        self, claim: Claim, above: Context, about: Callable[[Claim], dict[str, Any]]
    ) -> RunSpan | NonRecordingSpan:
        """A span for an attempt, under that of `above`, or the first of a trace: as the sampler says. about: makes its
        attributes."""
        name = f"run {claim.workflow}"
        parent = get_current_span(above).get_span_context() if above else None
        if parent is None or not parent.is_valid:
            parent = None
            trace_id = self._trace_id()
            flags, state = self._root_flags, _NO_STATE
            recorded = sampled = None if self._below is None else trace_id & _LOW < self._below
        else:
            trace_id, flags, state = parent.trace_id, parent.trace_flags & 2, parent.trace_state
            recorded = sampled = parent.trace_flags.sampled if self._as_parent else None
        attributes = about(claim) if recorded is not False else {}
        if recorded is None:
            told = self._tracer.sampler.should_sample(above, trace_id, name, _CONSUMER, attributes, ())
            recorded, sampled = told.decision is not _DROP, told.decision is _SAMPLE
            state = told.trace_state or _NO_STATE
            if told.attributes:  # a sampler may add some; those it was asked about are among them
                attributes = dict(told.attributes)
        its = self._context(trace_id, _FLAGS[flags | 1 if sampled else flags], state)
        if not recorded:
            return NonRecordingSpan(its)
        return self._begun(RunSpan(self, name, its, parent, attributes), above)

    def under(self, parent: SpanContext, name: str, attributes: dict[str, Any]) -> StepSpan:
        """A span under one that is recorded, as that is: the sampler is not asked again."""
        its = self._context(parent.trace_id, parent.trace_flags, parent.trace_state)
        return self._begun(StepSpan(self, name, its, parent, attributes), None)

    def _context(self, trace_id: int, flags: TraceFlags, state: TraceState) -> SpanContext:
        span_id = self._span_id()
        if _AS_EXPECTED:  # no ids to be checked that were just made
            return tuple.__new__(SpanContext, (trace_id, span_id, False, flags, state, True))
        return SpanContext(trace_id, span_id, False, flags, state)

    def _begun(self, span: _S, context: Context | None) -> _S:
        processors = getattr(self._processor, "_span_processors", ())
        if processors is not self._processors:  # another was added
            self._processors = processors
            self._hear_of_starts = [each for each in processors if type(each) not in _DEAF]
        for processor in self._hear_of_starts:
            processor.on_start(span, parent_context=context)
        return span

    def ended(self, span: LightSpan) -> None:
        """Hand it on. What a processor raises is not a run's, whose step this is."""
        try:
            span.bound(self.limits, self._most)
            self._processor.on_end(span)
        except Exception as error:
            self._trouble.tell(error)

    def bounded(self, attributes: Mapping[str, Any] | None, *, event: bool = False) -> Any:
        """Attributes as the provider's limits let them through."""
        limits = self.limits
        most = limits.max_event_attributes if event else limits.max_span_attributes
        longest = limits.max_attribute_length if event else limits.max_span_attribute_length
        return BoundedAttributes(most, dict(attributes or {}), immutable=True, max_value_len=longest)


def _below(sampler: Sampler) -> int | None:
    """A sampler takes the trace that has no parent if the low half of its id is less than this, and adds nothing to
    it: it need not be asked. None: it must be."""
    if type(sampler) in _OF_PARENTS:
        sampler = getattr(sampler, "_root", sampler)
    if type(sampler) is TraceIdRatioBased and sampler.TRACE_ID_LIMIT == _LOW:
        return sampler.bound
    decided = getattr(sampler, "_decision", None) if type(sampler) is StaticSampler else None
    return _LOW + 1 if decided is _SAMPLE else 0 if decided is _DROP else None


def _as_parent(sampler: Sampler) -> bool:
    """Whether a sampler takes what is under a parent just if that was taken, and adds nothing to it."""
    ways = [
        getattr(sampler, f"_{where}_parent_{how}", None)
        for how in ("sampled", "not_sampled")
        for where in ("remote", "local")
    ]
    taken = [getattr(way, "_decision", None) if type(way) is StaticSampler else None for way in ways]
    return type(sampler) in _OF_PARENTS and taken == [_SAMPLE, _SAMPLE, _DROP, _DROP]


def light(tracer: object, clock: Clock) -> Spans | None:
    """Spans in the place of a tracer's own; None if it is not the SDK's."""
    return Spans(tracer, clock) if isinstance(tracer, Tracer) else None
