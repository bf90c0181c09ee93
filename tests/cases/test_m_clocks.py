"""M. Clocks: skew, steps, resolution, long idleness."""

from __future__ import annotations

from pyrula.workflows import Rate
from tests.cases.scene import Bystander, Scene, assert_times


async def test_case_091_a_clock_that_steps_back_locks_nobody_out(scene: Scene, bystander: Bystander) -> None:
    scene.declare(rate_limit=Rate("k", 1, 3))
    await scene.work()
    await scene.reach(100)
    await scene.one()
    scene.env.clock.step_wall(-11)
    await scene.submit(3)
    await bystander.queue()
    await scene.reach(120)
    assert_times(scene.times(), [100, 100, 100, 101])


async def test_case_093_tokens_come_within_a_second_too(scene: Scene, bystander: Bystander) -> None:
    scene.declare(rate_limit=Rate("k", 2, 1))
    await scene.work()
    await scene.submit(4)
    await bystander.queue()
    await scene.reach(10)
    assert_times(scene.times(), [0, 0.5, 1.0, 1.5])


async def test_case_095_four_hundred_idle_days_overflow_nothing(scene: Scene, bystander: Bystander) -> None:
    """The worker is away meanwhile: nobody has to wake up for 400 days."""
    scene.declare(rate_limit=Rate("k", 1000, 5))
    worker = await scene.work()
    await scene.submit(5)
    await scene.env.stop_worker(worker)
    later = 400 * 86_400
    await scene.reach(later)
    await scene.work()
    await scene.submit(10)
    await bystander.queue()
    await scene.reach(later + 1)
    assert_times(scene.times()[5:], [later] * 5 + [later + n / 1000 for n in range(1, 6)])
