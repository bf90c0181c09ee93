"""The figures of `/metrics` as OpenTelemetry instruments (extra `otel`): the same names with dots, read when asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from pyrula.clock import SECOND
from pyrula.errors import missing
from pyrula.store.protocol import Store
from pyrula.telemetry.counts import Counts

try:
    from opentelemetry import metrics
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
except ModuleNotFoundError as error:
    raise missing("pyrula.telemetry.meters", error, "otel") from None

_EVERY: Final = 15 * SECOND
Reading = Callable[[], Iterable[Observation]]


class Meters:
    """Instruments for what `counts` counts and for what a store holds. provider: the global one if left out.

    `await meters.look(store)` reads the store once; `await meters.watch(store)` does so every 15 s, until cancelled.
    """

    def __init__(self, counts: Counts, provider: MeterProvider | None = None) -> None:
        self._overview: dict[str, Any] | None = None
        self._now = datetime.fromtimestamp(0, UTC)
        meter = metrics.get_meter("pyrula", meter_provider=provider)
        for name, read in self._counters(counts).items():
            meter.create_observable_counter(f"pyrula.{name}", [_callback(read)])
        for name, read in self._gauges().items():
            meter.create_observable_gauge(f"pyrula.{name}", [_callback(read)])

    async def look(self, store: Store) -> None:
        """Read the store, for the next export."""
        self._overview = await store.overview()
        self._now = datetime.fromtimestamp(store.clock.wall() / SECOND, UTC)

    async def watch(self, store: Store) -> None:
        """Read it again and again."""
        while True:
            await self.look(store)
            await store.clock.wait(asyncio.Event(), _EVERY)

    def _counters(self, counts: Counts) -> Mapping[str, Reading]:
        return {
            "claims": lambda: _observed(("workflow",), counts.claims),
            "starts": lambda: _observed(("workflow",), counts.starts),
            "submitted": lambda: _observed(("workflow",), counts.submitted),
            "triggered": lambda: _observed(("workflow",), counts.triggered),
            "outcomes": lambda: _observed(("workflow", "outcome"), counts.outcomes),
            "steps": lambda: _observed(("kind", "status"), counts.steps),
            "limiter_wait_seconds": lambda: _observed(("level", "limitable"), counts.held),
            "lapsed_leases": lambda: [Observation(counts.lapses)],
            "turns": lambda: [Observation(counts.turns.buckets()[-1][1])],
            "turn_seconds": lambda: [Observation(counts.turns.sum)],
            "executing_seconds": lambda: _observed(
                ("workflow",), {workflow: histogram.sum for workflow, histogram in counts.runs.items()}
            ),
        }

    def _gauges(self) -> Mapping[str, Reading]:
        return {
            "runs": self._runs,
            "waiting_runs": lambda: self._waiting("runs"),
            "waiting_oldest_seconds": lambda: self._waiting("since"),
            "buffers": lambda: self._buffers("buffers"),
            "buffered_events": lambda: self._buffers("events"),
            "workers": lambda: [Observation(self._overview["live_workers"])] if self._overview else [],
        }

    def _runs(self) -> Iterable[Observation]:
        if self._overview is None:
            return []
        found = _observed(("workflow",), self._overview["executing"], {"state": "executing"})
        return [*found, Observation(self._overview["queued"], {"state": "queued"})]

    def _waiting(self, what: str) -> Iterable[Observation]:
        if self._overview is None:
            return []
        rows = [
            *((each, each["gate"], each["kind"]) for each in self._overview["waiting"]),
            *((each, "", "worker") for each in self._overview["ready"]),
        ]
        return [
            Observation(
                each["runs"] if what == "runs" else self._age(each["since"]),
                {"workflow": each["workflow"], "gate": gate, "blocked_by": kind},
            )
            for each, gate, kind in rows
        ]

    def _buffers(self, what: str) -> Iterable[Observation]:
        rows = [] if self._overview is None else self._overview["buffers"]
        return [Observation(each[what], {"workflow": each["workflow"]}) for each in rows]

    def _age(self, since: datetime | None) -> float:
        return 0.0 if since is None else max(0.0, (self._now - since).total_seconds())


def _callback(read: Reading) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda _: read()


def _observed(
    names: Sequence[str], counts: Mapping[Any, float], more: Mapping[str, str] | None = None
) -> list[Observation]:
    found = []
    for key, count in dict(counts).items():
        values = (key,) if isinstance(key, str) else key
        found.append(Observation(count, {**dict(zip(names, values, strict=True)), **(more or {})}))
    return found
