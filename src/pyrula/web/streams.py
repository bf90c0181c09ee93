"""Figures of streams for Prometheus: how far the workers of a store are, and what this process's worker has counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_COUNTED = {
    "finished": "Records that this process's worker finished",
    "skipped": "Records that had ended before they came to this process's worker",
    "dead_letters": "Dead letters written by this process's worker",
    "commits": "Commits of offsets sent by this process's worker",
    "rebalances": "Partitions assigned to or taken from this process's worker, in batches",
}


def of_workers(workers: Iterable[Mapping[str, Any]]) -> list[Metric]:
    """What the live workers of a store say of their streams, a second or two old."""
    streams = [
        stream for worker in workers if worker["alive"] for stream in worker["facts"].get("streams", ())
    ]
    by_partition = ("workflow", "topic", "partition")
    lag = GaugeMetricFamily(
        "pyrula_stream_lag_records", "Records from the first unfinished one to the end", labels=by_partition
    )
    waiting = GaugeMetricFamily(
        "pyrula_stream_waiting_records", "Records that were read and not submitted", labels=by_partition
    )
    stopped = GaugeMetricFamily(
        "pyrula_stream_stopped", "1: the partition has stopped at a bad record", labels=by_partition
    )
    in_flight: Counter[tuple[str, str]] = Counter()
    for stream in streams:
        in_flight[stream["workflow"], stream["topic"]] += stream["in_flight"]
        for each in stream["partitions"]:
            labels = (stream["workflow"], stream["topic"], str(each["partition"]))
            if each["lag"] is not None:
                lag.add_metric(labels, each["lag"])
            waiting.add_metric(labels, each["waiting"])
            stopped.add_metric(labels, int(each["stopped"] is not None))
    flying = GaugeMetricFamily(
        "pyrula_stream_in_flight_records",
        "Records whose runs have not ended, parked ones included",
        labels=("workflow", "topic"),
    )
    for key, count in in_flight.items():
        flying.add_metric(key, count)
    return [lag, waiting, stopped, flying] if streams else []


def of_process(streams: Iterable[Mapping[str, Any]]) -> list[Metric]:
    """What this process's worker has counted of its streams."""
    told = list(streams)
    found: list[Metric] = []
    for name, about in _COUNTED.items() if told else ():
        family = CounterMetricFamily(f"pyrula_stream_{name}", about, labels=("workflow", "topic"))
        for stream in told:
            family.add_metric((stream["workflow"], stream["topic"]), stream[name])
        found.append(family)
    return found
