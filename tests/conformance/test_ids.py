"""Ids that somebody chose: given twice they are one run, if it is the same run."""

from __future__ import annotations

from typing import Any

import pytest

from pyrula.policies import Limit
from pyrula.store.protocol import Store, Submitted
from tests.conformance.hands import Hands


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ({"k": 1, "m": {"x": 1, "y": 2}}, {"m": {"y": 2, "x": 1}, "k": 1}, True),
        ({"k": 1}, {"k": True}, False),
        ({"k": 0}, {"k": False}, False),
        ({"k": 1}, {"k": 1.0}, False),
        ({"k": 1}, {"k": "1"}, False),
        ({"k": [1, {"x": 0}]}, {"k": [1, {"x": False}]}, False),
        ({"k": None}, {}, False),
    ],
)
async def test_params_are_the_same_in_any_order_and_not_for_looking_alike(
    hands: Hands, store: Store, first: dict[str, Any], second: dict[str, Any], same: bool
) -> None:
    hands.declare("w", concurrency=Limit("k", max=1))
    await hands.register()
    assert await hands.submit("w", "mine", params=first) == "mine"
    again = await store.submit([hands.submission("w", "mine", params=second)])
    assert again == [Submitted("mine", created=False, conflict=not same)]
    found = await store.get("mine")
    assert found is not None and found.params == first
    await hands.turn()
    await hands.end("mine")
