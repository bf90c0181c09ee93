"""What is current, for the API and at less cost: it makes a context in three copies of a dictionary, and gets to what
is current through two calls."""

from __future__ import annotations

import contextvars

from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import INVALID_SPAN, Span, set_span_in_context

_KEY = next(iter(set_span_in_context(INVALID_SPAN, Context())))


def _variable() -> contextvars.ContextVar[Context] | None:
    """Where the API keeps what is current, if that is a variable of Python's, as it is unless somebody chose another
    way."""
    mark, within = Context(), contextvars.Context()
    within.run(attach, mark)
    return next((variable for variable, value in within.items() if value is mark), None)


_held = _variable()
set_current, reset_current, current = (
    (attach, detach, get_current) if _held is None else (_held.set, _held.reset, _held.get)
)


def with_current(span: Span, context: Context) -> Context:
    """`context` with `span` as its current span."""
    return Context({**context, _KEY: span})
