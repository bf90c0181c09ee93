"""What counts and what traces stands before a store, and is one to whoever uses it."""

from __future__ import annotations

from typing import Any

import pytest

from pyrula.errors import StoreClosed
from pyrula.store.open import open_store
from pyrula.telemetry import Counts, observed
from pyrula.telemetry.otel import traced
from pyrula.workflows import Registry, Worker, WorkflowClient, workflow


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
