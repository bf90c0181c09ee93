"""What a worker can't be made with is refused where it is made, by name and value."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pyrula.workflows import (
    ConfigurationError,
    Context,
    PollRate,
    Registry,
    RetryAfter,
    Worker,
    WorkflowClient,
    open_store,
    workflow,
)


@pytest.mark.parametrize(
    ("argument", "values"),
    [
        ("store", [None, 7, "sqlite://"]),
        ("workflows", ["sync", b"sync", 7, [None], [len]]),
        ("worker_id", ["", 7, True, b"w", "a\0b", "\ud800", "x" * 501, ["w"]]),
        ("cluster", ["", 7, ["c"], "\ud800"]),
        ("max_concurrent_runs", [0, True, 1.5, "1", None, sys.maxsize, 10**5000]),
        ("lease_seconds", [0, 0.05, True, "30", float("nan"), 10**400]),
        ("stall_seconds", [0, -1, None]),
        ("grace_seconds", [-1, None, float("inf")]),
        ("limiter_check_frequency", [0, True, float("nan"), 1e308, 10**400, -(10**400)]),
        ("task_poller_pool_size", [0, True, 1.5]),
    ],
)
def test_a_worker_with_an_argument_that_it_cannot_keep_is_refused(argument: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(ConfigurationError, match=argument):
            Worker(**{"store": open_store("sqlite://"), argument: value})


async def test_a_worker_of_as_many_runs_as_it_may_have_takes_turns() -> None:
    registry = Registry()

    @workflow(registry=registry)
    async def work(ctx: Context) -> int:
        return 1

    async with open_store("sqlite://") as store, Worker(store, registry, max_concurrent_runs=1_000_000_000):
        assert await WorkflowClient(store, registry).execute("work", timeout=30) == 1


@pytest.mark.parametrize("window", [0, True, "60", float("inf"), 1e308, 10**400, -(10**400)])
def test_the_window_of_a_poll_rate_is_at_most_a_hundred_years(window: Any) -> None:
    with pytest.raises(ConfigurationError, match="time_window"):
        PollRate(limit=1, time_window=window)


@pytest.mark.parametrize("gate", [7, True, b"gate", ["gate"], object(), "half a pair: \ud83d"])
def test_a_retry_after_closes_a_gate_by_its_name(gate: Any) -> None:
    with pytest.raises(ConfigurationError, match="gate"):
        RetryAfter(1, gate)
