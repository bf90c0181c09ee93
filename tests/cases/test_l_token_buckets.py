"""L. Arithmetic of token buckets."""

from __future__ import annotations

import math
import random
import re
from datetime import datetime, timedelta
from typing import Any

import pytest

from pyrula.policies import tokens
from pyrula.testing import START
from pyrula.workflows import Limit, Rate
from tests.cases.scene import OTHER, Bystander, Scene, assert_times


async def test_case_075_runs_spaced_exactly_at_the_interval_all_start(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(rate_limit=Rate("k", 10, 1))
    await scene.work()
    await scene.submit(10)
    await bystander.queue()
    await scene.reach(0.9)
    assert_times(scene.times(), [n / 10 for n in range(10)])


async def test_case_077_looking_each_second_costs_a_slow_rate_nothing(
    scene: Scene, bystander: Bystander
) -> None:
    """A run of a workflow without a policy each second makes sure of a turn."""
    scene.declare(rate_limit=Rate("k", 0.1, 1))
    scene.declare("tick")
    await scene.work()
    await scene.submit(50)
    await bystander.queue()
    for at in range(1, 101):
        await scene.reach(at)
        await scene.one("tick", k="tick")
    assert_times(scene.times(), [10 * n for n in range(11)])


async def test_case_080_the_burst_is_as_large_as_declared(scene: Scene, bystander: Bystander) -> None:
    scene.declare(rate_limit=Rate("k", 100 / 60, 50))
    await scene.work()
    await scene.submit(51)
    await bystander.queue()
    await scene.reach(10)
    assert_times(scene.times(), [0.0] * 50 + [0.6])


async def test_case_081_burst_and_refill_add_up(scene: Scene, bystander: Bystander) -> None:
    scene.declare(rate_limit=Rate("k", 0.2, 2))
    await scene.work()
    await scene.submit(5)
    await bystander.queue()
    await scene.reach(60)
    assert_times(scene.times(), [0, 0, 5, 10, 15])


def assert_within_the_rate(starts: list[int], rate: tokens.Rate) -> None:
    """Raise if some span of T µs holds more than burst + rate * T starts; exact, and for every span."""
    p, q, burst = rate
    least = None
    for number, at in enumerate(starts):
        # Over the span from start j to start i: (i - j + 1) <= burst + p/q * (t_i - t_j), in whole numbers.
        level = number * q * tokens.MICROSECONDS - p * at
        least = level if least is None else min(least, level)
        assert level - least <= (burst - 1) * q * tokens.MICROSECONDS


def test_case_084_a_hundred_thousand_submits_in_an_hour_never_exceed_the_rate() -> None:
    """The bucket alone at full size; the whole engine on a smaller one, below."""
    chance = random.Random(84)
    number = Rate("k", 7.3, 13).number
    submits = sorted(chance.randrange(3_600_000_000) for _ in range(100_000))
    debt, at, q = 0, 0, number[1]
    starts, now = [], 0
    for submitted in submits:
        now = tokens.next_start(debt, at, q, number, max(now, submitted))
        if now > 3_600_000_000:
            break
        assert tokens.may_start(debt, at, q, number, now)
        debt, at, q = tokens.take(debt, at, q, number, now)
        starts.append(now)
    assert 26_280 <= len(starts) <= 26_293
    assert_within_the_rate(starts, number)


async def test_case_084_random_submits_never_exceed_the_rate(scene: Scene, bystander: Bystander) -> None:
    """20 s and some 550 submits in place of an hour and 100 000."""
    chance = random.Random(84)
    scene.declare(rate_limit=Rate("k", 7.3, 13))
    await scene.work()
    for at in range(20):
        await scene.reach(at + chance.random())
        await scene.submit(chance.randint(5, 50))
    await bystander.queue()
    await scene.reach(20)
    assert 13 + 7.3 * 18 <= len(scene.times()) <= 13 + 7.3 * 20
    assert_within_the_rate([round(at * 1e6) for at in scene.times()], Rate("k", 7.3, 13).number)


@pytest.mark.parametrize("seed", range(3))
async def test_case_086_the_next_start_shown_is_a_time_and_never_past(
    scene: Scene, bystander: Bystander, seed: int
) -> None:
    chance = random.Random(seed)
    scene.declare(concurrency=Limit("k", 3), rate_limit=Rate("k", 0.7, 2))
    await scene.work()
    ids: list[str] = []
    for _ in range(60):
        ids += await scene.submit(chance.randint(0, 3), seconds=chance.choice((0, 0.5, 30)))
        await scene.env.advance(chance.choice((0, 0.000001, 0.3, 1 / 3, 1, 17)))
        scene.env.clock.step_wall(chance.choice((0, 0, 0.5, -3, 1000, -1000)))
        await scene.env.settle()
        for gate in await scene.client.gates():
            assert_a_time_to_come(scene, gate.next_start_at)
            assert gate.tokens is None or 0 <= gate.tokens <= 2
        for run_id in ids[-5:]:
            reasons = await scene.client.why(run_id)
            if reasons["state"] == "queued":
                assert_a_time_to_come(scene, reasons["earliest_start"])
                assert not {"inf", "nan"} & set(re.findall(r"\w+", reasons["text"]))
    await bystander.queue()


def assert_a_time_to_come(scene: Scene, shown: Any) -> None:
    """Raise unless this is None or a moment not before now."""
    if shown is not None:
        assert isinstance(shown, datetime)
        left = (shown - scene.env.clock.today).total_seconds()
        assert math.isfinite(left)
        assert -0.000001 <= left < 10_000


async def test_case_087_why_says_when_the_last_of_a_hundred_will_start(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(rate_limit=Rate("k", 10, 10))
    await scene.work()
    ids = await scene.submit(100)
    await bystander.queue()
    reasons = await scene.client.why(ids[-1])
    assert abs(reasons["earliest_start"] - (START + timedelta(seconds=9))) <= timedelta(milliseconds=1)
    assert reasons["ahead"] == 89
    await scene.reach(20)
    assert_times(scene.started(ids[-1]), [9])


async def test_case_088_idle_time_at_a_full_bucket_is_not_credited_again(scene: Scene) -> None:
    scene.declare(rate_limit=Rate("k", 0.1, 1))
    await scene.work()
    for key in ("k", OTHER):
        await scene.one(k=key)
    await scene.reach(600)
    await scene.submit(2)
    await scene.submit(1, k=OTHER)
    await scene.reach(700)
    assert_times(scene.times(), [0, 600, 610])
    assert_times(scene.times(OTHER), [0, 600])
