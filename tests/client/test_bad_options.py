"""What a public constructor can't be made with is refused where it is made: which, which option, which value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyrula.limiters import Hub
from pyrula.temporal import WorkerLimiter
from pyrula.testing import Environment
from pyrula.web import create_app
from pyrula.workflows import (
    ConfigurationError,
    KafkaStream,
    Registry,
    Worker,
    WorkflowClient,
    open_store,
    workflow,
)


class Junk:
    def __repr__(self) -> str:
        return "<junk>"


JUNK = Junk()
WAYS: dict[str, tuple[Callable[..., Any], dict[str, Callable[[], Any]], tuple[str, ...]]] = {
    "WorkflowClient": (WorkflowClient, {"store": lambda: open_store("sqlite://")}, ("store", "registry")),
    "Worker": (
        Worker,
        {"store": lambda: open_store("sqlite://")},
        (
            "store", "workflows", "worker_id", "max_concurrent_runs", "lease_seconds", "stall_seconds",
            "grace_seconds", "limits", "limiter_time_windows", "limiter_check_frequency", "task_poller_pool_size",
            "task_poller_limiter", "cluster", "registry", "clock", "on_stuck", "tracer", "heartbeat", "streams",
        ),
    ),
    "open_store": (open_store, {"url": lambda: "sqlite://"}, ("url", "clock", "retention")),
    "Environment": (Environment, {}, ("store_url", "workflows", "start", "worker", "retention")),
    "create_app": (
        create_app,
        {"store": lambda: open_store("sqlite://")},
        (
            "store", "registry", "tokens", "metrics", "cors_origins", "secure_cookie", "max_body", "answer_seconds",
            "on_start", "on_stop",
        ),
    ),
    "WorkerLimiter": (
        WorkerLimiter,
        {"worker_id": lambda: "w"},
        (
            "worker_id", "cluster", "limits", "limiter_time_windows", "limiter_check_frequency",
            "task_poller_pool_size", "task_poller_limiter", "kinds", "session", "workflow_counts", "strict", "hub",
        ),
    ),
    "workflow": (lambda **options: workflow(**options)(_body), {"name": lambda: "w"}, ("registry",)),
    "Hub": (Hub, {}, ("clock", "readings", "threaded")),
    "KafkaStream": (
        lambda **options: workflow(name="w", stream=KafkaStream(**options), registry=Registry())(_body),
        {"topic": lambda: "t", "group": lambda: "g", "servers": lambda: "localhost:9092"},
        (
            "topic", "group", "servers", "max_concurrency", "key", "dead_letter_topic", "value", "start", "config",
        ),
    ),
}  # fmt: skip
"""Per constructor: how to call it, what it can't do without, and every option that it has."""
ELSEWHERE = {("Environment", "store_url"): "url", ("Environment", "retention"): "retention"}


async def _body(ctx: Any, record: Any) -> None: ...


@pytest.mark.parametrize(
    ("which", "option"), [(which, option) for which, way in WAYS.items() for option in way[2]]
)
def test_junk_is_refused_by_name_and_value(which: str, option: str) -> None:
    call, needs, _ = WAYS[which]
    given = {name: make() for name, make in needs.items()} | {option: JUNK}
    with pytest.raises(ConfigurationError) as caught:
        call(**given)
    message = str(caught.value)
    assert ELSEWHERE.get((which, option), option) in message
    assert "<junk>" in message
    assert "must be" in message or "expected" in message
