"""P. Zero, negative, endless and huge numbers."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from pyrula.workflows import (
    Collect,
    ConfigurationError,
    Debounce,
    Limit,
    Rate,
    Registry,
    WorkflowClient,
    open_store,
    workflow,
)
from tests.cases.scene import Bystander, Scene


def decorate(**policies: Any) -> None:
    async def body(ctx: Any, k: str) -> None: ...

    async def batch(ctx: Any, key: str, events: list[Any], count: int) -> None: ...

    workflow(name="w", registry=Registry(), **policies)(batch if "trigger" in policies else body)


@pytest.mark.parametrize(
    ("policies", "argument", "value"),
    [
        ({"concurrency": Limit("k", -1)}, "max", "-1"),
        ({"concurrency": Limit("k", 0)}, "max", "0"),
        ({"trigger": Collect("k", -5, 10)}, "max_events", "-5"),
        ({"trigger": Debounce("k", -1)}, "window_seconds", "-1"),
        ({"rate_limit": Rate("k", per_second=0, burst=5)}, "per_second", "0"),
        ({"rate_limit": Rate("k", per_second=float("nan"))}, "per_second", "nan"),
        ({"rate_limit": Rate("k", per_second=float("inf"))}, "per_second", "inf"),
    ],
)
def test_case_111_114_a_number_that_admits_nothing_is_refused_at_decoration(
    policies: dict[str, Any], argument: str, value: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        decorate(**policies)
    assert isinstance(raised.value, ValueError)
    message = str(raised.value)
    assert "'w'" in message
    assert argument in message
    assert value in message


async def test_case_116_a_huge_burst_survives_its_store(scene: Scene, bystander: Bystander) -> None:
    """In memory there is nothing to reopen: there the numbers are read from the store that is open."""
    burst = 2**33
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scene.declare(rate_limit=Rate("k", 10, burst))
    await scene.work()
    await scene.one()
    await bystander.queue()
    if scene.url.startswith("sqlite://") and "///" not in scene.url:
        found = await scene.client.gates("w.rate", "k")
    else:
        async with open_store(scene.url, clock=scene.env.clock) as again:
            found = await WorkflowClient(again, scene.registry).gates("w.rate", "k")
    assert [(gate.burst, gate.tokens) for gate in found] == [(burst, burst - 1)]
