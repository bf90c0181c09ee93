"""Spans that cost a busy worker little: the SDK's own, with nothing made before it is needed.

The SDK spends about 30 µs on a span: a lock, bounded containers, attributes checked one by one, a sampler asked again
for what its parent settled. Here a span is a few fields until somebody says something of it; when it has ended, it goes
to the provider's processors as the `ReadableSpan` that it is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context, detach
from opentelemetry.sdk import trace as sdk
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
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    get_current_span,
)

from pyrula.clock import Clock, nanoseconds
from pyrula.store.protocol import Claim
from pyrula.telemetry.current import current, reset_current, set_current, with_current
from pyrula.telemetry.trouble import Trouble

_FLAGS = tuple(map(TraceFlags, range(4)))
"""By value: sampled or not, with a random trace id or not."""
_INTERNAL, _CONSUMER = SpanKind.INTERNAL, SpanKind.CONSUMER
_SAMPLE, _DROP = Decision.RECORD_AND_SAMPLE, Decision.DROP
"""Looked up once: to ask an enum for its member is a call."""
_NO_STATE = TraceState()
_AS_EXPECTED = tuple.__new__(SpanContext, (1, 2, False, _FLAGS[1], _NO_STATE, True)) == SpanContext(
    1, 2, False, _FLAGS[1], _NO_STATE
)
"""Whether a span's context is the tuple that this module takes it for."""
_DEAF = frozenset((BatchSpanProcessor, SimpleSpanProcessor))
"""Processors that do nothing when a span starts, nor before it is over."""
_OF_PARENTS = frozenset((ParentBased, ParentBasedTraceIdRatio))
"""Samplers that go by what is above, if anything is."""
_ATTRIBUTES = 5
"""So many has a span of its own at most, and all of them plain."""
_LOW = (1 << 64) - 1


class LightSpan(sdk.Span):
    """A span that is recorded. What most spans never have is made when they do. In a `with` it is the current one of
    the block, and ends with it; what the block raises is recorded.

    One class for attempts and steps: the interpreter is quick where it meets the same one again.
    """

    _spans: Spans
    _context: SpanContext
    _token: Any
    _attributes: Any
    _end_time: int | None
    _events: Any = ()
    _links: Any = ()
    _status = Status(StatusCode.UNSET)
    _instrumentation_info = None
    _lock: Any = threading.RLock()
    """One for all, as none but who speaks of a span takes it."""

    def set_attribute(self, key: str, value: Any) -> None:
        self.set_attributes({key: value})

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        with self._lock:
            if type(self._attributes) is dict:
                self._attributes = self._spans.bounded(self._attributes)
            super().set_attributes(attributes)

    def add_event(
        self, name: str, attributes: Mapping[str, Any] | None = None, timestamp: int | None = None
    ) -> None:
        with self._lock:
            self._events = self._events or BoundedList(self._limits.max_events)
            super().add_event(name, attributes, timestamp)

    def add_link(self, context: SpanContext, attributes: Mapping[str, Any] | None = None) -> None:
        with self._lock:
            self._links = self._links or BoundedList(self._limits.max_links)
            super().add_link(context, attributes)

    def end(self, end_time: int | None = None) -> None:
        if self._end_time is None:
            spans = self._spans
            self._end_time = spans.now() if end_time is None else end_time
            spans.ended(self)

    def told(self, outcome: str) -> None:
        """What came of an attempt: a plain value, not checked as others'."""
        if self._end_time is None:
            self._attributes["pyrula.outcome"] = outcome

    def __enter__(self) -> LightSpan:
        self._token = set_current(with_current(self, current()))
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

    def __init__(self, tracer: sdk.Tracer, clock: Clock) -> None:
        self.now = nanoseconds(clock)
        self._tracer, self._scope, self._limits = tracer, tracer._instrumentation_scope, tracer._span_limits
        most, longest = self._limits.max_span_attributes, self._limits.max_span_attribute_length
        self._narrow = longest is not None or (most is not None and most < _ATTRIBUTES)
        self._trouble = Trouble()
        ids = tracer.id_generator
        self._trace_id, self._span_id = ids.generate_trace_id, ids.generate_span_id
        random = getattr(ids, "is_trace_id_random", None)  # since 1.40
        self._root_flags = 2 if random is not None and random() else 0
        self._below = _below(tracer.sampler)
        self._as_parent = _as_parent(tracer.sampler)
        self._all = _in_turn(tracer.span_processor)
        self._ask_who_hears()

    def run(
        self, claim: Claim, above: Context, about: Callable[[Claim], dict[str, Any]]
    ) -> LightSpan | NonRecordingSpan:
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
        attributes: Any = about(claim) if recorded is not False else {}
        if recorded is None:
            told = self._tracer.sampler.should_sample(above, trace_id, name, _CONSUMER, attributes, ())
            recorded, sampled = told.decision is not _DROP, told.decision is _SAMPLE
            state = told.trace_state or _NO_STATE
            if told.attributes:  # a sampler may add some; those it was asked about are among them
                attributes = self.bounded(told.attributes)
        its = self._context(trace_id, _FLAGS[flags | 1 if sampled else flags], state)
        if not recorded:
            return NonRecordingSpan(its)
        return self._begun(_CONSUMER, name, its, parent, attributes, above)

    def under(self, span: LightSpan, name: str, attributes: dict[str, Any]) -> LightSpan:
        """A span under one that is recorded, as that is: the sampler is not asked again."""
        parent = span._context
        its = self._context(parent.trace_id, parent.trace_flags, parent.trace_state)
        return self._begun(_INTERNAL, name, its, parent, attributes, None)

    def _context(self, trace_id: int, flags: TraceFlags, state: TraceState) -> SpanContext:
        if _AS_EXPECTED:  # no ids to be checked that were just made
            return tuple.__new__(SpanContext, (trace_id, self._span_id(), False, flags, state, True))
        return SpanContext(trace_id, self._span_id(), False, flags, state)

    def _begun(
        self,
        kind: SpanKind,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        attributes: Any,
        above: Context | None,
    ) -> LightSpan:
        span = object.__new__(LightSpan)  # the SDK's own way makes what is not needed
        span._spans, span._limits, span._token = self, self._limits, None
        span._resource, span._instrumentation_scope = self._tracer.resource, self._scope
        span._name, span._kind, span._context, span._parent = name, kind, context, parent
        span._attributes = self.bounded(attributes) if self._narrow else attributes
        span._start_time, span._end_time = self.now(), None
        if self._all._span_processors is not self._processors:
            self._ask_who_hears()
        for hear in self._at_start:
            hear(span, parent_context=above)
        return span

    def _ask_who_hears(self) -> None:
        """Of the provider's processors: it may be given another at any time."""
        self._processors = self._all._span_processors
        keen = [each for each in self._processors if type(each) not in _DEAF]
        self._at_start = [each.on_start for each in keen]
        self._before_end = [
            each._on_ending for each in keen if hasattr(each, "_on_ending")
        ]  # an older SDK has none

    def ended(self, span: LightSpan) -> None:
        """Hand it on. What a processor raises is not a run's, whose step this is."""
        try:
            if self._all._span_processors is not self._processors:
                self._ask_who_hears()
            for hear in self._before_end:
                hear(span)
            for processor in self._processors:
                processor.on_end(span)
        except Exception as error:
            self._trouble.tell(error)

    def bounded(self, attributes: Mapping[str, Any]) -> BoundedAttributes:
        """Attributes as the provider's limits let them through."""
        most, longest = self._limits.max_span_attributes, self._limits.max_span_attribute_length
        return BoundedAttributes(most, dict(attributes), immutable=False, max_value_len=longest)


def _in_turn(processor: sdk.SpanProcessor) -> Any:
    """A provider's processors, which hear one after the other; or the one that tells others in its own way."""
    several = type(processor) is sdk.SynchronousMultiSpanProcessor
    return processor if several else SimpleNamespace(_span_processors=(processor,))


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
    return Spans(tracer, clock) if isinstance(tracer, sdk.Tracer) else None
