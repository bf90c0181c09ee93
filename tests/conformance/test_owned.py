"""Runs that belong to a unit: only a worker that owns the unit is handed them, as the owner of a partition is."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from pyrula.model.outcome import Released
from pyrula.policies.stamp import served_name
from tests.conformance.hands import Hands


def _owned(hands: Hands, run_id: str, unit: str):
    submission = hands.submission("orders", run_id)
    stamp = replace(submission.stamped.stamp, owned=True)
    return replace(submission, stamped=replace(submission.stamped, stamp=stamp, unit_key=unit))


async def _own(hands: Hands, *units: str) -> bool:
    return await hands.store.serve(hands.incarnation, ["orders", *(f"orders@{unit}" for unit in units)])


async def test_only_the_owner_of_a_unit_is_handed_its_runs(hands, store, clock):
    hands.declare("orders")
    other = Hands(store, clock, "w2")
    other.declared = hands.declared
    await hands.register()
    await other.register()
    await store.submit(
        [_owned(hands, "a", "t/0"), _owned(hands, "b", "t/1"), hands.submission("orders", "free")]
    )
    assert await hands.turn() == ["free"]
    assert await _own(hands, "t/0")
    assert await hands.turn() == ["a"]
    assert await _own(other, "t/1")
    assert await other.turn() == ["b"]
    await hands.end("a", "free")
    await other.end("b")


async def test_a_unit_that_changes_hands_takes_its_open_runs_along(hands, store, clock):
    hands.declare("orders")
    other = Hands(store, clock, "w2")
    other.declared = hands.declared
    await hands.register()
    await other.register()
    await _own(hands, "t/0")
    await store.submit([_owned(hands, run, "t/0") for run in ("a", "b")])
    assert await hands.turn(1) == ["a"]
    await _own(hands)
    await _own(other, "t/0")
    assert await hands.turn() == []
    assert await other.turn() == ["b"]
    await hands.end("a", outcome=Released())
    assert await hands.turn() == []
    assert await other.turn() == ["a"]
    await other.end("a", "b")


async def test_what_a_worker_owns_is_known_from_its_registration_too(hands, store):
    hands.declare("orders")
    await store.submit([_owned(hands, "a", "t/0")])
    await hands.register(units=["orders@t/0"])
    assert await hands.turn() == ["a"]
    await hands.end("a")


async def test_a_worker_that_was_given_up_can_own_nothing(hands, store):
    hands.declare("orders")
    await hands.register()
    await store.leave(hands.incarnation)
    assert not await _own(hands, "t/0")
    assert await store.workers() == []


async def test_a_run_by_itself_and_one_of_a_unit_keep_apart_though_their_keys_are_alike(hands, store):
    hands.declare("orders")
    await hands.register()
    plain = hands.submission("orders", "plain")
    await store.submit(
        [_owned(hands, "a", "t/0"), replace(plain, stamped=replace(plain.stamped, unit_key="t/0"))]
    )
    assert await hands.turn() == ["plain"]
    await _own(hands, "t/0")
    assert await hands.turn() == ["a"]
    await hands.end("a", "plain")


async def test_open_runs_are_the_units_own_that_have_not_ended(hands, store):
    hands.declare("orders")
    await hands.register(units=["orders@t/0"])
    for n in range(4):
        await store.submit([_owned(hands, f"run-{n}", "t/0")])
        await hands.move(0.001)
    await store.submit([_owned(hands, "other", "t/1")])
    assert sorted(await hands.turn(2)) == ["run-0", "run-1"]
    await hands.end("run-0", wanted=0)
    assert sorted(await store.open_runs("orders", "t/0", 100)) == ["run-1", "run-2", "run-3"]
    assert sorted(await store.open_runs("orders", "t/0", 2)) == ["run-2", "run-3"]
    assert await store.open_runs("others", "t/0", 100) == []


async def test_restamping_leaves_a_run_in_its_unit(hands, store):
    hands.declare("orders")
    await hands.register()
    await store.submit([_owned(hands, "a", "t/0")])
    hands.declare("orders", timeout=5, priority=2)
    assert await store.restamp("orders", lambda params, priority: hands.stamped("orders", {}, None)) == 1
    assert await hands.turn() == []
    await _own(hands, "t/0")
    assert await hands.turn() == ["a"]
    stamp = hands.executing["a"].stamp
    assert (stamp.owned, stamp.timeout_us) == (True, 5_000_000)
    await hands.end("a")


async def test_why_says_that_nobody_owns_the_unit_yet(hands, store):
    hands.declare("orders")
    await hands.register()
    await store.submit([_owned(hands, "a", "t/0")])
    await hands.turn()
    answer = await store.why("a")
    assert answer["reasons"] == [{"kind": "no_worker", "workflow": "orders", "owner_of": "t/0"}]
    assert "owns partition t/0" in answer["text"]
    await _own(hands, "t/0")
    assert (await store.why("a"))["reasons"] == []


async def test_what_a_worker_reports_is_told_of_it(hands, store):
    hands.declare("orders")
    await hands.register()
    stop = {"partition": "t/0", "run_id": "g/t/0/7", "why": "it can't be read"}
    await store.report(
        hands.incarnation, b'{"streams":[{"workflow":"orders","stopped":[%s]}]}' % msgspec.json.encode(stop)
    )
    (worker,) = await store.workers()
    assert worker["facts"]["streams"][0]["stopped"] == [stop]
    answer = await store.why("g/t/0/7")
    assert answer["state"] == "refused"
    assert answer["text"] == "Partition t/0 has stopped at it, on worker w1: it can't be read"
    assert await store.why("g/t/0/8") is None


def test_a_served_name_is_no_name_of_a_workflow(hands):
    hands.declare("orders")
    stamp = _owned(hands, "a", "t/0").stamped.stamp
    assert served_name("orders", "t/0", stamp) == "orders@t/0"
