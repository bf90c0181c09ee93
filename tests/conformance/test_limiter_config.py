"""Limiters of a worker, set from elsewhere: what waits in its row, until when, and who is concerned."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from pyrula.clock import SECOND
from pyrula.store.protocol import Store, TurnRequest
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import LEASE, Hands

ALL = {"limits": {}, "task_poller_limiter": None, "limiter_check_frequency": 0.5}


def facts(config: dict[str, Any], number: int = 0) -> bytes:
    return msgspec.json.encode({"limiters": {"config": config, "number": number}})


async def born(store: Store, clock: VirtualClock, name: str, config: dict[str, Any] = ALL) -> Hands:
    hands = Hands(store, clock, name)
    hands.declare("w")
    await hands.register(facts=facts(config))
    return hands


async def configure(store: Store, worker_id: str | None, **changes: Any) -> dict[str, Any]:
    answers = await store.configure_limiters(worker_id, msgspec.json.encode(changes))
    return {name: msgspec.json.decode(config) for name, config in answers.items()}


async def taken(hands: Hands, number: int = 0) -> Any:
    handed = await hands.store.turn(TurnRequest(incarnation=hands.incarnation, limiters=number))
    return handed.limiters and (handed.limiters[0], msgspec.json.decode(handed.limiters[1]))


async def row(store: Store, name: str) -> dict[str, Any]:
    return next(row for row in await store.workers() if row["worker_id"] == name)


async def test_a_change_is_handed_over_in_the_next_turn_until_it_is_taken_up(
    store: Store, clock: VirtualClock
) -> None:
    w1 = await born(store, clock, "w1")
    assert await taken(w1) is None
    answers = await configure(store, "w1", limits={"worker": {"workflow": [5, None]}})
    assert answers == {"w1": {**ALL, "limits": {"worker": {"workflow": [5, None]}}}}
    wanted = (1, {"limits": {"worker": {"workflow": [5, None]}}})
    assert await taken(w1) == wanted
    assert await taken(w1) == wanted
    assert await taken(w1, 1) is None


async def test_changes_that_wait_are_one_and_the_newest_of_each_kind_counts(
    store: Store, clock: VirtualClock
) -> None:
    w1 = await born(store, clock, "w1")
    await configure(store, "w1", limits={"worker": {"workflow": [5, None]}})
    await configure(store, "w1", limiter_check_frequency=1.0)
    await configure(store, "w1", limits={})
    assert await taken(w1, 1) == (3, {"limits": {}, "limiter_check_frequency": 1.0})


async def test_what_was_taken_up_is_not_wanted_again(store: Store, clock: VirtualClock) -> None:
    w1 = await born(store, clock, "w1")
    await configure(store, "w1", limits={"worker": {"workflow": [5, None]}})
    own = {
        **ALL,
        "limits": {"worker": {"workflow": [9, 9]}},
    }  # taken up, and changed by the worker itself since
    await store.report("w1", facts(own, 1))
    await configure(store, "w1", limiter_check_frequency=2.0)
    assert await taken(w1, 1) == (2, {"limiter_check_frequency": 2.0})
    assert (await row(store, "w1"))["limiters"] == {**own, "limiter_check_frequency": 2.0}


async def test_the_row_has_what_is_in_force_or_about_to_be(store: Store, clock: VirtualClock) -> None:
    await born(store, clock, "w1")
    before = await row(store, "w1")
    assert (before["limiters"], before["limiters_pending"]) == (ALL, False)
    await configure(store, "w1", limiter_check_frequency=2.0)
    pending = await row(store, "w1")
    assert (pending["limiters"], pending["limiters_pending"]) == (
        {**ALL, "limiter_check_frequency": 2.0},
        True,
    )
    await store.report("w1", facts(ALL, 1))  # it could not be taken up: what the worker has is what counts
    after = await row(store, "w1")
    assert (after["limiters"], after["limiters_pending"]) == (ALL, False)


async def test_all_live_workers_are_told_and_nobody_else(store: Store, clock: VirtualClock) -> None:
    w1, w2 = await born(store, clock, "w1"), await born(store, clock, "w2")
    gone = await born(store, clock, "w3")
    clock.move(clock.monotonic() + LEASE - SECOND)
    for hands in (w1, w2):
        await hands.store.turn(TurnRequest(incarnation=hands.incarnation))
    clock.move(clock.monotonic() + SECOND)
    assert sorted(await configure(store, None, limiter_check_frequency=2.0)) == ["w1", "w2"]
    later = await born(store, clock, "w4")
    for hands in (w1, w2):
        assert await taken(hands) == (1, {"limiter_check_frequency": 2.0})
    assert await taken(later) is None
    assert (await store.turn(TurnRequest(incarnation=gone.incarnation))).lost
    assert await configure(store, "w3", limits={}) == {}
    assert await configure(store, "nobody", limits={}) == {}


async def test_a_change_wakes_a_worker_that_waits_for_news(store: Store, clock: VirtualClock) -> None:
    w1 = await born(store, clock, "w1")
    nudge = asyncio.Event()
    store.listen(nudge)
    await w1.turn()
    nudge.clear()
    await configure(store, "w1", limits={})
    async with asyncio.timeout(5):
        await nudge.wait()
    store.unlisten(nudge)
