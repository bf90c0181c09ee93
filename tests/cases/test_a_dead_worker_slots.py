"""A. Slots of workers and processes that died."""

from __future__ import annotations

import signal

from pyrula.workflows import Limit, Rate
from tests.cases.fleet import Fleet
from tests.cases.scene import Bystander, Scene, assert_times


async def test_case_001_a_killed_workers_slot_comes_back_when_its_lease_ends(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(concurrency=Limit("k", 1))
    dead = await scene.work(lease_seconds=30)
    first = await scene.one(seconds=100)
    await scene.reach(5)
    await scene.env.kill(dead)
    second = await scene.one(seconds=1)
    await scene.work(lease_seconds=30)
    await bystander.queue()
    await scene.reach(34.999)
    assert scene.order() == [first]
    await scene.reach(200)
    assert_times(scene.started(first), [0, 35])
    assert_times(scene.started(second), [135])
    assert scene.peaks["k"] == 1
    assert await scene.executing() == 0


async def test_case_001_after_kill_9_another_process_starts_the_run_again(fleet: Fleet) -> None:
    """With real processes; lease_seconds is 1 in place of 30."""
    dead = fleet.work(max=1, lease_seconds=1)
    await fleet.ready(dead)
    first = await fleet.submit(seconds=0.5, hang=dead.pid)
    await fleet.until(lambda: fleet.starts(first))
    killed = fleet.kill(dead, signal.SIGKILL)
    second = await fleet.submit()
    heir = fleet.work(max=1, lease_seconds=1)
    await fleet.ready(heir)
    other = await fleet.submit(k="another key")
    for run_id in (first, second, other):
        await fleet.client.result(run_id, timeout=20)
    assert fleet.starts(first)[1] <= max(killed + 1, fleet.ready_at(heir)) + 2
    assert fleet.starts(first)[1] < fleet.starts(second)[0]
    assert fleet.peak("k") == 1
    assert fleet.starts(other)[0] <= fleet.submitted[other] + 1
    assert sum(gate.in_use for gate in await fleet.client.gates()) == 0


async def test_case_003_slots_heal_without_any_option_set(scene: Scene, bystander: Bystander) -> None:
    scene.declare(concurrency=Limit("k", 1))
    dead = await scene.work()
    first = await scene.one(seconds=1)
    await scene.env.kill(dead)
    second = await scene.one()
    await scene.work()
    await bystander.queue()
    await scene.reach(40)
    assert_times(scene.started(first), [0, 30])
    assert_times(scene.started(second), [31])


async def test_case_006_a_stopped_worker_hands_its_run_back_with_the_slot_free(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(concurrency=Limit("k", 1), rate_limit=Rate("k", 0.001, 1))
    stopped = await scene.work()
    first = await scene.one(seconds=100)
    second = await scene.one()
    await scene.work()
    await bystander.queue()
    await scene.reach(10)
    await scene.env.stop_worker(stopped, grace_seconds=2)
    assert scene.env.now < 12 + 1
    assert_times(scene.started(first), [0, 12])
    await scene.reach(999)
    assert scene.order() == [first, first], "the hand-over took no second token"
    await scene.reach(1000.1)
    assert_times(scene.started(second), [1000])
    assert scene.peaks["k"] == 1


async def test_case_006_within_the_grace_the_run_ends_and_the_next_one_starts(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(concurrency=Limit("k", 1))
    stopped = await scene.work()
    first = await scene.one(seconds=20)
    second = await scene.one()
    await scene.work()
    await bystander.queue()
    await scene.reach(10)
    await scene.env.stop_worker(stopped, grace_seconds=30)
    assert await scene.state(first) == "completed"
    await scene.reach(30)
    assert_times(scene.started(first), [0])
    assert_times(scene.started(second), [20])


async def test_case_006_sigterm_with_a_short_grace_frees_the_slot_on_exit(fleet: Fleet) -> None:
    """With real processes; the lease of 30 s is far longer than the test."""
    stopped = fleet.work(max=1, per_second=0.001, burst=1, lease_seconds=30, grace=0.2)
    await fleet.ready(stopped)
    first = await fleet.submit(seconds=0.2, hang=stopped.pid)
    await fleet.until(lambda: fleet.starts(first))
    second = await fleet.submit()
    heir = fleet.work(max=1, per_second=0.001, burst=1, lease_seconds=30)
    await fleet.ready(heir)
    told = fleet.kill(stopped, signal.SIGTERM)
    await fleet.until(lambda: fleet.ends(first))
    other = await fleet.submit(k="another key")
    await fleet.until(lambda: fleet.ends(other))
    assert stopped.wait(5) == 0
    assert fleet.starts(first)[1] <= told + 0.2 + 1
    assert not fleet.starts(second), "the only token was the first one's"


async def test_case_006_sigterm_with_a_long_grace_lets_the_run_end(fleet: Fleet) -> None:
    """With real processes."""
    stopped = fleet.work(max=1, lease_seconds=30, grace=10)
    await fleet.ready(stopped)
    first = await fleet.submit(seconds=1)
    await fleet.until(lambda: fleet.starts(first))
    second = await fleet.submit()
    fleet.kill(stopped, signal.SIGTERM)
    heir = fleet.work(max=1, lease_seconds=30)
    await fleet.until(lambda: fleet.ends(second))
    assert len(fleet.starts(first)) == 1
    assert fleet.starts(second)[0] >= fleet.ends(first)[0] - 0.01
    assert fleet.pid_of(second) == heir.pid
    other = await fleet.submit(k="another key")
    await fleet.until(lambda: fleet.ends(other))
