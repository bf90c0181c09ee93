"""Figures for Prometheus: what the store knows, read when asked, beside what this process has counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from pyrula.store.protocol import Store
from pyrula.telemetry.counts import Counts, Histogram, check_counts
from pyrula.telemetry.figures import OF_PROCESS, OF_STORE, Figure, look

T = TypeVar("T")
_FAMILIES: Final[dict[str, Any]] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
}


class _Once:
    """A collector of what was read just now."""

    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> list[Metric]:
        """What was read."""
        return self._found


class Metrics:
    """counts: what this process's worker counts, if it has one."""

    def __init__(self, counts: Counts | None = None) -> None:
        if counts is not None:
            check_counts("Metrics: counts", counts)
        self.counts = counts

    async def render(self, store: Store) -> bytes:
        """Everything, in Prometheus' text format."""
        found = _families(OF_STORE, await look(store))
        if self.counts is not None:
            found += _families(OF_PROCESS, self.counts)
        registry = CollectorRegistry()
        registry.register(_Once(found))
        return generate_latest(registry)


def _families(figures: Iterable[Figure[T]], known: T) -> list[Metric]:
    """The figures as they stand; a stream's only where there is one."""
    found = []
    for figure in figures:
        family = _FAMILIES[figure.kind](f"pyrula_{figure.name}", figure.about, labels=figure.labels)
        for labels, value in figure.read(known):
            family.add_metric(
                labels, *((value.buckets(), value.sum) if isinstance(value, Histogram) else (value,))
            )
        if family.samples or not figure.name.startswith("stream_"):
            found.append(family)
    return found
