"""What a stream does, as values: for `worker.stats()`, metrics and pages."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec


class PartitionStats(NamedTuple):
    """One partition. lag: records from the first unfinished one to its end, None while unknown; in_flight: of
    its records; waiting: read and not submitted; committed: the offset; stopped: why, None if it has not."""

    partition: int
    lag: int | None
    in_flight: int
    waiting: int
    committed: int | None
    paused: bool
    stopped: str | None


class StreamStats(NamedTuple):
    """One stream of one worker. in_flight: records, parked ones included; finished: since it was started;
    skipped: of them, had ended before they came (again); dead_letters, commits, rebalances: since then;
    trouble: what the client last complained of."""

    workflow: str
    topic: str
    group: str
    in_flight: int
    partitions: tuple[PartitionStats, ...]
    finished: int
    skipped: int
    dead_letters: int
    commits: int
    rebalances: int
    trouble: str | None


def facts(stats: StreamStats, stopped: list[dict[str, str]]) -> dict[str, Any]:
    """What the store keeps of it, for other processes: JSON. stopped: partition, run_id and why of each."""
    partitions = [each._asdict() for each in stats.partitions]
    told: dict[str, Any] = msgspec.to_builtins(
        {**stats._asdict(), "partitions": partitions, "stopped": stopped}
    )
    return told
