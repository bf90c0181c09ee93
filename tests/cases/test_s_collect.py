"""S. Collect."""

from __future__ import annotations

import pytest

from pyrula.workflows import Collect, PayloadTooLarge
from tests.cases.scene import Bystander, Scene, assert_times

MEGABYTE = "x" * 999_900
"""With its event around it, a million bytes."""


async def test_case_134_the_first_event_of_a_batch_sets_its_time(scene: Scene, bystander: Bystander) -> None:
    scene.declare(trigger=Collect("k", 100, 0.25))
    await scene.work()
    await bystander.trigger(at=0.25)
    for n in range(6):
        await scene.reach(n / 10)
        await scene.client.trigger("w", {"k": "k", "n": n})
    await scene.reach(10)
    assert_times(scene.times(), [0.25, 0.55])
    assert [start.n for start in scene.starts if start.key == "k"] == [[0, 1, 2], [3, 4, 5]]


async def test_case_135_a_batch_fires_at_its_size_and_leaves_nothing_behind(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(trigger=Collect("k", 2, 60))
    await scene.work()
    await bystander.trigger(at=60)
    answers = [await scene.client.trigger("w", {"k": "k", "n": n}) for n in range(1, 6)]
    await scene.env.settle()
    assert [answer is None for answer in answers] == [True, False, True, False, True]
    assert scene.order() == [answers[1], answers[3]]
    await scene.reach(100)
    assert_times(scene.times(), [0, 0, 60])
    assert [start.n for start in scene.starts if start.key == "k"] == [[1, 2], [3, 4], [5]]
    assert await scene.client.buffers() == []


async def test_case_138_a_batch_that_never_fills_fires_at_its_time(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(trigger=Collect("k", 100, 5))
    await scene.work()
    await bystander.trigger(at=5)
    for n in range(7):
        await scene.client.trigger("w", {"k": "k", "n": n})
    await scene.reach(60)
    assert_times(scene.times(), [5])
    assert [start.n for start in scene.starts if start.key == "k"] == [list(range(7))]


async def test_case_141_a_batch_that_would_pass_4_mib_fires_early(scene: Scene, bystander: Bystander) -> None:
    """The report's fifth event is not refused: the four before it fire at once, and it opens a new batch."""
    scene.declare(trigger=Collect("k", 1000, 60))
    await scene.work()
    await bystander.trigger(at=60)
    answers = [await scene.client.trigger("w", {"k": "k", "n": n, "x": MEGABYTE}) for n in range(5)]
    assert answers == [None] * 5
    with pytest.raises(PayloadTooLarge):
        await scene.client.trigger("w", {"k": "k", "n": "too large", "x": "x" * (1 << 20)})
    await scene.env.settle()
    assert_times(scene.times(), [0])
    await scene.reach(100)
    assert_times(scene.times(), [0, 60])
    assert [start.n for start in scene.starts if start.key == "k"] == [[0, 1, 2, 3], [4]]
    assert await scene.client.buffers() == []
