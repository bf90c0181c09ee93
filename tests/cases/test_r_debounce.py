"""R. Debounce."""

from __future__ import annotations

import pytest

from pyrula.workflows import Debounce
from tests.cases.scene import OTHER, Bystander, Scene, assert_times


@pytest.mark.parametrize(
    ("longest", "times", "counts"),
    [(None, [65], [61]), (19.5, [19.5, 39.5, 59.5, 65], [20, 20, 20, 1])],
)
async def test_case_125_a_steady_stream_postpones_a_run_only_as_long_as_declared(
    scene: Scene, bystander: Bystander, longest: float | None, times: list[float], counts: list[int]
) -> None:
    scene.declare(trigger=Debounce("k", 5, max_wait_seconds=longest))
    await scene.work()
    await bystander.trigger(at=5)
    for n in range(61):
        await scene.reach(n)
        assert await scene.client.trigger("w", {"k": "k", "n": n}) is None
    await scene.reach(100)
    assert_times(scene.times(), times)
    batches = [start.n for start in scene.starts if start.key == "k"]
    assert [len(batch) for batch in batches] == counts
    assert [n for batch in batches for n in batch] == list(range(61))


async def test_case_127_the_stores_clock_decides_the_order_of_events(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(trigger=Debounce("k", 5))
    await scene.work()
    await bystander.trigger(at=5)
    await scene.reach(10)
    await scene.client.trigger("w", {"k": "k", "n": "B", "made_at": 10})
    await scene.reach(11)
    await scene.client.trigger("w", {"k": "k", "n": "A", "made_at": 9})
    await scene.reach(60)
    assert_times(scene.times(), [16])
    assert [start.n for start in scene.starts if start.key == "k"] == [["B", "A"]]


async def test_case_130_fields_beside_the_key_do_not_stop_events_from_collapsing(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(trigger=Debounce("doc_id", 5))
    await scene.work()
    for n in range(10):
        await scene.client.trigger("w", {"doc_id": "k", "n": n, "timestamp": f"2026-01-05T00:00:0{n}"})
    await bystander.trigger(at=5, doc_id=OTHER)
    await scene.reach(60)
    assert_times(scene.times(), [5])
    assert [start.n for start in scene.starts if start.key == "k"] == [list(range(10))]


async def test_case_131_the_last_of_quick_submits_is_in_the_run(scene: Scene, bystander: Bystander) -> None:
    scene.declare(trigger=Debounce("k", 5))
    await scene.work()
    await bystander.trigger(at=5)
    for n in range(6):
        await scene.reach(n / 100)
        await scene.client.trigger("w", {"k": "k", "n": n})
    await scene.reach(60)
    assert_times(scene.times(), [5.05])
    assert [start.n for start in scene.starts if start.key == "k"] == [list(range(6))]


async def test_case_133_ten_thousand_pending_keys_occupy_no_place(scene: Scene) -> None:
    scene.declare(trigger=Debounce("k", 5))
    scene.declare("ordinary")
    worker = await scene.work(max_concurrent_runs=100)
    await scene.client.trigger_many("w", [{"k": f"key {n}", "n": n} for n in range(10_000)])
    await scene.env.settle()
    assert worker.executing == 0
    await scene.reach(1)
    await scene.one("ordinary", k=OTHER)
    assert_times(scene.times(OTHER), [1])
    await scene.reach(4.999)
    assert len(scene.starts) == 1
    await scene.reach(6)
    assert sorted(start.n[0] for start in scene.starts[1:]) == list(range(10_000))
    assert {start.at for start in scene.starts[1:]} == {5.0}
