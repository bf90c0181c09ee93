"""What a process tells of itself: figures, traces and logs, where they are asked for."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import AsyncIterator
from typing import Annotated, Final, NamedTuple

import typer

from pyrula.errors import ConfigurationError, missing
from pyrula.limiters import hub
from pyrula.store.protocol import Store
from pyrula.telemetry import Counts, observed
from pyrula.workflows.body.port import Tracer

_log = logging.getLogger("pyrula.worker")
_STANDING_IN: Final = ("ProxyTracerProvider", "_ProxyMeterProvider")
"""What OpenTelemetry's API has until a provider is set."""
Otel = Annotated[
    bool, typer.Option("--otel", help="Traces and figures by OpenTelemetry's global providers (extra otel).")
]


class Observed(NamedTuple):
    """A store that counts what goes through it. tracer: None without traces."""

    store: Store
    counts: Counts
    tracer: Tracer | None


def need(what: str, extra: str, *modules: str) -> None:
    """Import what an extra brings, by name, so that what else fails to import keeps its traceback. Raises
    `ConfigurationError`, saying what to install."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise ConfigurationError(str(missing(what, error, extra))) from None


@contextlib.asynccontextmanager
async def observing(plain: Store, *, otel: bool) -> AsyncIterator[Observed]:
    """Count for as long as the block lasts; with `otel`, export that and trace what is submitted and executed."""
    counts = Counts()
    store, tracer = observed(plain, counts), None
    with contextlib.ExitStack() as stack:
        stack.callback(hub.listen(counts.limited))
        if otel:
            from pyrula.telemetry.meters import Meters
            from pyrula.telemetry.otel import Tracing, traced

            _tell_what_goes_nowhere()
            watching = asyncio.ensure_future(Meters(counts).watch(store))
            stack.callback(watching.cancel)
            store, tracer = traced(store), Tracing()
        yield Observed(store, counts, tracer)


def _tell_what_goes_nowhere() -> None:
    """Without a provider OpenTelemetry takes everything and keeps nothing, and says nothing of it."""
    from opentelemetry import metrics, trace

    nobody = [
        what
        for what, provider in (
            ("traces", trace.get_tracer_provider()),
            ("figures", metrics.get_meter_provider()),
        )
        if type(provider).__name__ in _STANDING_IN
    ]
    if nobody:
        _log.log(
            logging.WARNING if len(nobody) > 1 else logging.INFO,  # one alone may be what was meant
            "--otel: no provider is set for %s, so they go nowhere: start it under opentelemetry-instrument, or set "
            "one in the module that is imported",
            " and ".join(nobody),
        )
