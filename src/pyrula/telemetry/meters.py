"""The figures of `/metrics` as OpenTelemetry instruments (extra `otel`): the same names with dots, read when asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from pyrula.clock import SECOND
from pyrula.errors import StoreError, expect, missing
from pyrula.store.protocol import Store
from pyrula.telemetry.counts import Counts, Histogram, check_counts
from pyrula.telemetry.figures import OF_PROCESS, OF_STORE, Figure, Sample, Seen, look

try:
    from opentelemetry import metrics
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
except ModuleNotFoundError as error:
    raise missing("pyrula.telemetry.meters", error, "otel") from None

_EVERY: Final = 15 * SECOND
log = logging.getLogger("pyrula.store")
T = TypeVar("T")
Know = Callable[[], T | None]
"""What is known now; None: nothing yet."""


class Meters:
    """Instruments for what `counts` counts and for what a store holds. provider: the global one if left out.

    A histogram goes out as three counters, since what is read when asked can be no histogram there: `.bucket` (by
    `le`, as Prometheus has it), `.count` and `.sum`. `await meters.look(store)` reads the store once; `await
    meters.watch(store)` does so every 15 s, until cancelled.
    """

    def __init__(self, counts: Counts, provider: MeterProvider | None = None) -> None:
        check_counts("Meters: counts", counts)
        gives = provider is None or callable(getattr(provider, "get_meter", None))
        expect(
            "Meters: provider",
            provider,
            gives,
            "a MeterProvider of OpenTelemetry, or None for the global one",
        )
        self._seen: Seen | None = None
        meter = metrics.get_meter("pyrula", meter_provider=provider)
        for of_store in OF_STORE:
            _instruments(meter, of_store, lambda: self._seen)
        for of_process in OF_PROCESS:
            _instruments(meter, of_process, lambda: counts)

    async def look(self, store: Store) -> None:
        """Read the store, for the next export."""
        self._seen = await look(store)

    async def watch(self, store: Store) -> None:
        """Read it again and again; of one that can't be reached nothing is told until it can."""
        while True:
            try:
                await self.look(store)
            except StoreError as error:
                self._seen = None
                log.warning("no figures of the store: %s", error)
            await store.clock.wait(asyncio.Event(), _EVERY)


def _instruments(meter: Meter, figure: Figure[T], know: Know[T]) -> None:
    name, about = f"pyrula.{figure.name}", figure.about
    if figure.kind == "gauge":
        meter.create_observable_gauge(name, [_callback(figure, know, _plain)], description=about)
    elif figure.kind == "counter":
        meter.create_observable_counter(name, [_callback(figure, know, _plain)], description=about)
    else:
        for part, take in _PARTS.items():
            meter.create_observable_counter(
                f"{name}.{part}", [_callback(figure, know, take)], description=about
            )


def _callback(
    figure: Figure[T], know: Know[T], take: Callable[[Sample], Iterable[tuple[dict[str, str], float]]]
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def read(_: CallbackOptions) -> Iterable[Observation]:
        known = know()
        for sample in () if known is None else figure.read(known):
            labels = dict(zip(figure.labels, sample[0], strict=True))
            for more, value in take(sample):
                told = {**labels, **more}
                yield Observation(value, {label: text for label, text in told.items() if text})

    return read


def _plain(sample: Sample) -> Iterable[tuple[dict[str, str], float]]:
    return [({}, sample[1])]


def _buckets(sample: Sample) -> Iterable[tuple[dict[str, str], float]]:
    histogram: Histogram = sample[1]
    return [({"le": bound}, count) for bound, count in histogram.buckets()]


def _count(sample: Sample) -> Iterable[tuple[dict[str, str], float]]:
    histogram: Histogram = sample[1]
    return [({}, histogram.buckets()[-1][1])]


def _sum(sample: Sample) -> Iterable[tuple[dict[str, str], float]]:
    histogram: Histogram = sample[1]
    return [({}, histogram.sum)]


_PARTS: Final = {"bucket": _buckets, "count": _count, "sum": _sum}
