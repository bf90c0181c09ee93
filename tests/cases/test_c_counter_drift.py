"""C. Slots released twice, and counters that drift."""

from __future__ import annotations

from pyrula.model.lease import Lease
from pyrula.model.outcome import Cancelled, Completed, Released
from pyrula.workflows import Limit
from tests.cases.hand import Hand
from tests.cases.scene import OTHER, Bystander, Scene, assert_times


async def test_case_016_an_outcome_under_another_lease_releases_nothing(scene: Scene) -> None:
    declared = scene.declare(concurrency=Limit("k", 1))
    owner, other = Hand(scene.env.store, declared, "owner"), Hand(scene.env.store, declared, "other")
    await owner.register()
    await other.register()
    first = await scene.client.submit("w", {"k": "k"}, run_id="r1")
    second = await scene.one()
    (claim,) = (await owner.turn(wanted=9)).claims
    assert claim.run_id == first
    stale = Lease(claim.lease.seq, claim.lease.epoch - 1, claim.lease.shard)
    for hand, lease in ((other, claim.lease), (owner, stale), (other, stale)):
        for outcome in (Completed(b"1"), Cancelled(), Released()):
            answer = await hand.turn((lease, outcome), wanted=9)
            assert (answer.refused, answer.claims) == ((lease,), ())
    assert await scene.client.submit("w", {"k": "k"}, run_id="r1") == first
    assert (await other.turn(wanted=9)).claims == ()
    assert await scene.states([first, second]) == ["executing", "queued"]
    assert await scene.executing() == 1
    bystander = await scene.one(k=OTHER)
    (beside,) = (await other.turn(wanted=9)).claims
    assert beside.run_id == bystander
    (following,) = (await owner.turn((claim.lease, Completed(b"1")), wanted=9)).claims
    assert following.run_id == second
    assert await scene.executing() == 1


async def test_case_017_one_that_ends_lets_in_one_and_a_queued_one_that_ends_none(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(concurrency=Limit("k", 2))
    await scene.work()
    ids = await scene.submit(5, seconds=100)
    await bystander.queue()
    await scene.reach(1)
    await scene.client.cancel(ids[0])
    await scene.reach(2)
    assert_times(scene.times(), [0, 0, 1])
    await scene.client.cancel(ids[3])
    await scene.reach(3)
    assert scene.order() == ids[:3]
    assert await scene.executing() == 2
    assert scene.peaks["k"] == 2


async def test_case_020_nothing_starts_while_more_execute_than_a_lowered_limit_admits(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(concurrency=Limit("k", 5))
    await scene.work()
    for seconds in (1, 2, 3, 4, 5):
        await scene.one(seconds=seconds)
    queued = await scene.submit(4, seconds=100)
    await scene.client.override_limit("w.limit", max=2)
    await bystander.queue()
    await scene.reach(3.999)
    assert len(scene.times()) == 5
    assert await scene.executing() == 2
    await scene.reach(4.5)
    assert scene.order()[5:] == queued[:1]
    assert await scene.executing() == 2
    await scene.reach(6)
    assert scene.order()[5:] == queued[:2]
    assert_times(scene.times()[5:], [4, 5])


async def test_case_020_a_redeploy_with_a_lower_limit_does_not_touch_what_is_queued(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(concurrency=Limit("k", 5))
    await scene.work()
    for seconds in (1, 2, 3, 4, 5):
        await scene.one(seconds=seconds)
    queued = await scene.submit(4, seconds=100)
    await scene.redeploy(concurrency=Limit("k", 2))
    await bystander.queue()
    new = await scene.one()
    await scene.reach(102.999)
    assert scene.order()[5:] == queued
    assert_times(scene.times()[5:], [1, 2, 3, 4])
    await scene.reach(105)
    assert_times(scene.started(new), [103])
