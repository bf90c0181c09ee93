"""What counts and what traces stands before a store, and is one to whoever uses it."""

from __future__ import annotations

from typing import Any

import pytest

from pyrula.errors import ConfigurationError, StoreClosed
from pyrula.store.open import open_store
from pyrula.telemetry import Counts, observed
from pyrula.telemetry.logs import log_to
from pyrula.telemetry.meters import Meters
from pyrula.telemetry.otel import Tracing, traced
from pyrula.web.metrics import Metrics
from pyrula.workflows import Registry, Worker, WorkflowClient, workflow

STORE = open_store("sqlite://")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: observed(3, Counts()), "observed: store is 3; it must be a store"),
        (lambda: observed("sqlite://", Counts()), "it must be a store"),
        (lambda: observed(STORE, 4), r"observed: counts is 4; it must be a Counts\(\)"),
        (lambda: observed(STORE, Counts), r"it must be a Counts\(\)"),
        (lambda: traced(None), "traced: store is None"),
        (lambda: Tracing("jaeger"), "Tracing: provider is 'jaeger'"),
        (lambda: Tracing(clock=4), "Tracing: clock is 4"),
        (lambda: Meters(STORE), "Meters: counts"),
        (lambda: Meters(Counts(), 4), "Meters: provider is 4"),
        (lambda: Metrics(Counts), "Metrics: counts"),
        (lambda: log_to("runs.log"), "log_to: stream is 'runs.log'"),
        (lambda: log_to(as_json="yes"), "log_to: as_json is 'yes'"),
    ],
)
def test_what_can_not_be_counted_traced_or_logged_is_refused_at_once(make: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        make()


@pytest.mark.parametrize("around", [lambda store: observed(store, Counts()), traced])
async def test_a_store_that_is_wrapped_is_opened_and_closed_by_the_block_that_uses_it(around: Any) -> None:
    registry = Registry()

    @workflow(registry=registry)
    async def greet(ctx: Any, who: str) -> str:
        return f"hello {who}"

    plain = open_store("sqlite://")
    async with around(plain) as store, Worker(store, registry):
        assert store is not plain
        assert (
            await WorkflowClient(store, registry).execute("greet", {"who": "Ada"}, timeout=10) == "hello Ada"
        )
    with pytest.raises(StoreClosed):
        await plain.get("any")
