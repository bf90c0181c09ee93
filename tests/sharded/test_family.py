"""Parents and children on different shards: as if they were on one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyrula.errors import StoreUnavailable
from pyrula.model.outcome import Cancelled, Completed, Failed
from pyrula.policies import Limit
from pyrula.store.shard.sweep import sweep
from pyrula.store.sharded.store import ShardedStore
from tests.conformance.hands import Hands, child, write
from tests.sharded.places import id_of, key_on, shard_of


@pytest.fixture
async def hands(hands: Hands) -> Hands:
    hands.declare("w", concurrency=Limit("k", max=1))
    hands.declare("keeps", concurrency=Limit("k", max=1, hold="run", shared="g"))
    hands.declare("needs", concurrency=Limit("k", max=1, shared="g"))
    hands.declare("free")
    await hands.register()
    return hands


async def born(
    hands: Hands, name: str, parent: str, shard: int | None = None, number: int = 0, **more: Any
) -> str:
    """Submit a child under the id that its parent's body would give it."""
    params = {} if shard is None else {"k": key_on(shard)}
    return await hands.submit(name, f"{parent}/:{number}", params=params, parent=parent, **more)


async def parent_on(hands: Hands, shard: int) -> str:
    run_id = await hands.submit("w", params={"k": key_on(shard)})
    assert await hands.turn() == [run_id]
    return run_id


async def test_a_child_is_where_its_gates_are_and_one_without_gates_with_its_parent(
    hands: Hands, store: ShardedStore
) -> None:
    parent = await parent_on(hands, 1)
    assert await shard_of(store, await born(hands, "w", parent, 2, 0)) == 2
    assert await shard_of(store, await born(hands, "free", parent, None, 1)) == 1
    assert sorted(row["run_id"] for row in await store.children(parent, 9)) == [
        f"{parent}/:0",
        f"{parent}/:1",
    ]
    await hands.turn()


@pytest.mark.parametrize("shard", range(3))
async def test_a_childs_result_wakes_its_parent(hands: Hands, shard: int) -> None:
    parent = await parent_on(hands, 1)
    kid = await born(hands, "free" if shard == 1 else "w", parent, None if shard == 1 else shard)
    assert await hands.park(parent, child(0, kid)) == [kid]
    why = await hands.store.why(parent)
    assert why["reasons"][0]["state"] == "executing"
    assert f"its child {kid}, which is executing" in why["text"]
    assert await hands.end(kid, outcome=Completed(b'{"a":1}')) == [parent]
    (entry,) = hands.executing[parent].log
    assert (entry.status, entry.value) == ("done", b'{"a":1}')


async def test_a_childs_error_is_told_as_on_one_shard(hands: Hands) -> None:
    parent = await parent_on(hands, 0)
    kids = [await born(hands, "w", parent, shard, shard) for shard in (1, 2)]
    kids.append(await born(hands, "free", parent, None, 0))
    await hands.turn()
    await hands.park(parent, *(child(n, kid) for n, kid in enumerate(kids)))
    error = msgspec.json.encode({"type": "ValueError", "message": "no"})
    for kid in kids:
        await hands.end(kid, outcome=Failed(error))
    log = await hands.store.log(parent)
    told = [msgspec.json.decode(entry.value or b"") for entry in log]
    assert [each.pop("run_id") for each in told] == kids
    assert {
        msgspec.json.encode(each).replace(kid.encode(), b"") for each, kid in zip(told, kids, strict=True)
    } == {msgspec.json.encode(told[0]).replace(kids[0].encode(), b"")}


async def test_a_child_that_ends_before_it_is_waited_for_is_not_missed(
    hands: Hands, store: ShardedStore
) -> None:
    parent = await parent_on(hands, 0)
    kid = await born(hands, "w", parent, 2)
    await hands.turn()
    await hands.end(kid, outcome=Completed(b"7"))
    (entry,) = await store.record("w1", hands.executing[parent].lease, [child(0, kid)])
    assert (entry.status, entry.value) == ("done", b"7")


async def test_a_child_submitted_again_is_one_run_wherever_it_would_go(
    hands: Hands, store: ShardedStore
) -> None:
    parent = await parent_on(hands, 0)
    kid = await born(hands, "w", parent, 2)
    assert await born(hands, "w", parent, 2) == kid
    for shard in range(3):
        again = hands.submission("w", kid, params={"k": key_on(shard), "n": 1}, parent=parent)
        (answer,) = await store.submit([again])
        assert answer.conflict
    assert await shard_of(store, kid) == 2


async def test_a_cancel_reaches_the_whole_family(hands: Hands, store: ShardedStore) -> None:
    parent = await parent_on(hands, 0)
    kid = await born(hands, "w", parent, 1)
    await hands.turn()
    grandchild = await born(hands, "w", kid, 2)
    waiting = await born(hands, "free", kid, None, 1)
    chosen = await hands.submit("w", id_of(0, "mine"), params={"k": key_on(2)}, parent=kid)
    await hands.turn()
    assert await store.cancel([parent]) == ["executing"]
    await hands.turn()
    assert hands.last is not None
    states = {run_id: await hands.state(run_id) for run_id in (kid, grandchild, waiting, chosen)}
    assert states == {kid: "executing", grandchild: "executing", waiting: "executing", chosen: "cancelled"}
    for run_id in (parent, kid, grandchild, waiting):
        await hands.end(run_id, outcome=Cancelled())
        assert await hands.state(run_id) == "cancelled"


async def test_a_child_that_is_cancelled_before_it_comes_comes_cancelled(
    hands: Hands, store: ShardedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id is chosen, so it comes by way of a third shard, which can't be reached just then."""
    parent = await parent_on(hands, 0)
    kid = id_of(2, "mine")
    gone = _gone(store, 2, monkeypatch)
    with pytest.raises(StoreUnavailable):
        await hands.submit("w", kid, params={"k": key_on(1)}, parent=parent)
    await hands.end(parent, outcome=Cancelled())  # as a body does that is told so
    gone.undo()
    await hands.submit("w", kid, params={"k": key_on(1)}, parent=parent)
    assert await hands.state(kid) == "queued"  # nobody cancelled its parent: it ended by itself
    await store.cancel([kid])


def _gone(store: ShardedStore, shard: int, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let every call of a shard fail, as those of a server that is off."""

    async def off(*_: Any) -> Any:
        raise StoreUnavailable("switched off")

    monkeypatch.setattr(store.shard(shard), "write", off)
    return monkeypatch


async def test_a_child_shares_the_slot_that_a_far_ancestor_holds(hands: Hands, store: ShardedStore) -> None:
    top = await hands.submit("keeps", params={"k": key_on(0)})
    assert await hands.turn() == [top]
    middle = await born(hands, "w", top, 1)
    await hands.park(top, child(0, middle))
    leaf = await born(hands, "needs", middle, 0)
    other = await hands.submit("needs", params={"k": key_on(0)})
    assert await hands.park(middle, child(0, leaf)) == [leaf]
    assert await hands.end(leaf) == [middle]
    assert await hands.end(middle) == [top]
    assert await hands.end(top) == [other]
    await hands.end(other)


async def test_when_a_holder_ends_a_far_descendant_queues_for_real(hands: Hands, store: ShardedStore) -> None:
    top = await hands.submit("keeps", params={"k": key_on(0)})
    await hands.turn()
    middle = await born(hands, "w", top, 1)
    await hands.turn(wanted=1)
    leaf = await born(hands, "needs", middle, 0)
    other = await hands.submit("needs", params={"k": key_on(0)})
    assert await hands.turn() == []
    assert await hands.end(top) == [leaf]
    assert await hands.end(leaf) == [other]
    await hands.end(other, middle)


async def test_a_cycle_of_held_slots_over_two_shards_is_found_within_10_s(
    hands: Hands, store: ShardedStore
) -> None:
    one = await hands.submit("keeps", params={"k": key_on(0)})
    await hands.turn()
    await hands.move(1)
    other = await hands.submit("keeps", params={"k": key_on(1)})
    await hands.turn()
    first, second = await born(hands, "needs", one, 1), await born(hands, "needs", other, 0)
    await hands.park(one, child(0, first))
    await hands.park(other, child(0, second))
    bystander = await hands.submit("needs", params={"k": key_on(1, 1)})
    assert await hands.turn() == [bystander]
    began = hands.clock.now
    started: list[str] = []
    while not started and hands.clock.now - began < 60:
        assert hands.last is not None and hands.last.next_in is not None
        await hands.move(max(0.001, hands.last.next_in / 1_000_000))
        started = await hands.turn()
    assert started == [other]  # the youngest parent
    assert hands.clock.now - began <= 10
    (entry,) = hands.executing[other].log
    told = msgspec.json.decode(entry.value)
    assert told["code"] == "slot_deadlock"
    assert all(run_id in told["message"] for run_id in (one, other, first, second))
    assert await hands.state(second) == "cancelled"
    assert await hands.end(other) == [first]
    assert await hands.end(first) == [one]
    await hands.end(one, bystander)


async def test_what_only_a_family_had_use_for_is_swept_with_it(hands: Hands, store: ShardedStore) -> None:
    parent = await parent_on(hands, 0)
    kid = await born(hands, "w", parent, 1)
    await hands.park(parent, child(0, kid))
    await hands.end(kid)
    await hands.end(parent)
    await hands.move(1)
    now = await store.now()
    assert await write(store, lambda tx: sweep(tx, now).runs) == 2
    for number in range(3):
        left = await store.shard(number).read(
            lambda tx: tx.rows("family.ends", kid) + tx.rows("family.parents", parent)
        )
        assert left == []
