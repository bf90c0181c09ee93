"""O. Several limits at once, and tokens of refused or cancelled runs."""

from __future__ import annotations

from typing import Any

import pytest

from pyrula.workflows import Limit, Rate
from tests.cases.hand import Hand
from tests.cases.scene import Bystander, Scene, assert_times


@pytest.mark.parametrize("key", ["k", lambda params: f"y of {params['k']}"])
async def test_case_105_a_run_refused_by_one_gate_takes_nothing_from_another(
    scene: Scene, bystander: Bystander, key: Any
) -> None:
    """Gates of one key, and of two."""
    served = scene.declare(concurrency=Limit("k", 1), rate_limit=Rate(key, 0.0001, 5))
    await scene.work()
    ids = await scene.submit(5, seconds=10)
    await bystander.queue()
    hand = Hand(scene.env.store, served, "looks on")
    await hand.register()
    for _ in range(1000):
        assert (await hand.turn(wanted=1)).claims == ()
    (rate,) = await scene.client.gates("w.rate", "k" if key == "k" else "y of k")
    assert rate.tokens == 4
    await scene.reach(60)
    assert scene.order() == ids
    assert_times(scene.times(), [0, 10, 20, 30, 40])


async def test_case_109_cancelled_runs_cost_no_tokens(scene: Scene, bystander: Bystander) -> None:
    scene.declare(rate_limit=Rate("k", 1, 1))
    await scene.work()
    ids = await scene.submit(1000)
    await bystander.queue()
    assert await scene.client.cancel_many(ids[1:-1]) == [True] * 998
    await scene.reach(5)
    assert scene.order() == [ids[0], ids[-1]]
    assert_times(scene.times(), [0, 1])


@pytest.mark.parametrize("counter", [None, 10])
async def test_case_110_a_limit_a_rate_and_a_workers_counter_all_hold(
    scene: Scene, bystander: Bystander, counter: int | None
) -> None:
    """The counter admits 10 in 60 s, which these runs do not use up; without it, the same."""
    scene.declare(concurrency=Limit("k", 1), rate_limit=Rate("k", 0.5, 1))
    limits = {} if counter is None else {"worker": {"workflow": (None, counter)}}
    await scene.work(limits=limits, limiter_time_windows={"workflow": 60})
    await scene.submit(5, seconds=0.1)
    await bystander.queue()
    await scene.reach(20)
    assert_times(scene.times(), [0, 2, 4, 6, 8])
    assert scene.peaks["k"] == 1


async def test_case_110_a_workers_counter_that_is_used_up_holds_though_the_store_would_not(
    scene: Scene,
) -> None:
    """Worker-side: it counts every key. A worker that is held looks again every 0.5 s."""
    scene.declare(concurrency=Limit("k", 1), rate_limit=Rate("k", 0.5, 1))
    await scene.work(limits={"worker": {"workflow": (None, 3)}}, limiter_time_windows={"workflow": 60})
    await scene.submit(5, seconds=0.1)
    await scene.reach(100)
    times = scene.times()
    assert_times(times[:3], [0, 2, 4])
    assert len(times) == 5
    assert 60 <= times[3] <= 60.5
    assert_times([times[4]], [times[3] + 2])
