"""Figures for Prometheus: what the store knows, read when asked, beside what this process has counted.

Labels are workflows, gate names, kinds and levels: what is declared. Never a key, a run or a worker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from pyrula.store.protocol import Store
from pyrula.telemetry.counts import Counts
from pyrula.web import streams


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
        self.counts = counts

    async def render(self, store: Store) -> bytes:
        """Everything, in Prometheus' text format."""
        overview = await store.overview()
        now = datetime.fromtimestamp(store.clock.wall() / 1e6, UTC)
        found = [
            *of_store(overview, now),
            *streams.of_workers(await store.workers()),
            *(of_process(self.counts) if self.counts else ()),
        ]
        registry = CollectorRegistry()
        registry.register(_Once(found))
        return generate_latest(registry)


def _parked(reasons: Mapping[str, int]) -> Counter[str]:
    """Runs by the state that a figure calls what several reasons may be: a series has one sample."""
    named = {"delay": "delayed", "later": "delayed", "aside": "set_aside"}
    states = Counter[str]()
    for reason, count in reasons.items():
        states[named.get(reason, f"parked_{reason}")] += count
    return states


def of_store(overview: dict[str, Any], now: datetime) -> list[Metric]:
    """The figures of a store, from its overview at `now`."""
    runs = GaugeMetricFamily(
        "pyrula_runs",
        "Unfinished runs by state and workflow (queued and parked: of all workflows)",
        labels=("state", "workflow"),
    )
    for workflow, count in overview["executing"].items():
        runs.add_metric(("executing", workflow), count)
    runs.add_metric(("queued", ""), overview["queued"])
    for state, count in _parked(overview["parked"]).items():
        runs.add_metric((state, ""), count)
    waiting = GaugeMetricFamily(
        "pyrula_waiting_runs",
        "Queued runs by workflow, gate and what blocks them (limit, rate, slot; worker: none has taken them; "
        "turn: no worker has looked at them)",
        labels=("workflow", "gate", "blocked_by"),
    )
    oldest = GaugeMetricFamily(
        "pyrula_waiting_oldest_seconds",
        "Age of the oldest run that is first in a line, by workflow, gate and what blocks it",
        labels=("workflow", "gate", "blocked_by"),
    )
    for each in overview["waiting"]:
        labels = (each["workflow"], each["gate"], each["kind"])
        waiting.add_metric(labels, each["runs"])
        oldest.add_metric(labels, _age(each["since"], now))
    for each in overview["ready"]:
        labels = (each["workflow"], "", "worker")
        waiting.add_metric(labels, each["runs"])
        oldest.add_metric(labels, _age(each["since"], now))
    if overview["not_looked_at"]:
        waiting.add_metric(("", "", "turn"), overview["not_looked_at"])
    buffers = GaugeMetricFamily(
        "pyrula_buffers", "Buffers that have not fired, by workflow", labels=("workflow",)
    )
    events = GaugeMetricFamily("pyrula_buffered_events", "Events in them, by workflow", labels=("workflow",))
    late = GaugeMetricFamily(
        "pyrula_buffer_late_seconds",
        "How long the buffer due first is overdue, by workflow",
        labels=("workflow",),
    )
    for each in overview["buffers"]:
        buffers.add_metric((each["workflow"],), each["buffers"])
        events.add_metric((each["workflow"],), each["events"])
        late.add_metric((each["workflow"],), _age(each["next_due_at"], now))
    workers = GaugeMetricFamily("pyrula_workers", "Workers that are alive", value=overview["live_workers"])
    return [runs, waiting, oldest, buffers, events, late, workers]


def _age(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())


def of_process(counts: Counts) -> list[Metric]:
    """The figures of this process's worker and clients."""
    turns = HistogramMetricFamily("pyrula_turn_seconds", "Time of a turn, its commit included")
    turns.add_metric((), counts.turns.buckets(), counts.turns.sum)
    runs = HistogramMetricFamily(
        "pyrula_executing_seconds", "Time from a claim until its outcome is handed in", labels=("workflow",)
    )
    for workflow, histogram in counts.runs.items():
        runs.add_metric((workflow,), histogram.buckets(), histogram.sum)
    by_workflow = ("workflow",)
    return [
        turns,
        runs,
        CounterMetricFamily(
            "pyrula_lapsed_leases", "Outcomes refused because the lease was lost", value=counts.lapses
        ),
        _counter(
            "pyrula_claims", "Runs handed out; resumed ones count each time", by_workflow, counts.claims
        ),
        _counter("pyrula_starts", "First starts", by_workflow, counts.starts),
        _counter("pyrula_submitted", "Runs submitted by this process", by_workflow, counts.submitted),
        _counter("pyrula_triggered", "Events buffered by this process", by_workflow, counts.triggered),
        _counter("pyrula_outcomes", "Outcomes handed in", ("workflow", "outcome"), counts.outcomes),
        _counter("pyrula_steps", "Log entries written", ("kind", "status"), counts.steps),
        _counter(
            "pyrula_limiter_wait_seconds",
            "Time that limiters held this process's polls back",
            ("level", "limitable"),
            counts.held,
        ),
        *streams.of_process(counts.streams),
    ]


def _counter(name: str, about: str, labels: Sequence[str], counts: Mapping[Any, float]) -> Metric:
    family = CounterMetricFamily(name, about, labels=labels)
    for key, count in counts.items():
        family.add_metric((key,) if isinstance(key, str) else key, count)
    return family
