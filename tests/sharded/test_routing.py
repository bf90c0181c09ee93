"""What decides a run's shard, and that runs of one counter never meet another's (spec: Shards)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from pyrula.errors import ConfigurationError, ShardMismatch
from pyrula.ids import shard_of as carried
from pyrula.model.payload import decode
from pyrula.policies import Collect, Every, Limit, Rate
from pyrula.policies.stamp import Stamped
from pyrula.store.shard.placing import place
from pyrula.store.sharded.store import ShardedStore
from tests.conformance.hands import Hands
from tests.sharded.places import SHARDS, id_of, key_on, shard_of


def by_key(key: str = "k", **more: object) -> dict[str, object]:
    return {"concurrency": Limit(key=key, max=1, **more)}  # type: ignore[arg-type]  # of Limit


async def test_runs_of_one_key_are_together_whichever_workflow_they_are_of(
    hands: Hands, store: ShardedStore
) -> None:
    hands.declare("a", **by_key(shared="api"))
    hands.declare(
        "b", concurrency=Limit(key="user", max=1, shared="api"), rate_limit=Rate(key="user", per_second=9)
    )
    await hands.register()
    for shard in range(SHARDS):
        key = key_on(shard)
        first = await hands.submit("a", params={"k": key})
        second = await hands.submit("b", params={"user": key})
        assert await shard_of(store, first) == await shard_of(store, second) == shard
        assert carried(first) == carried(second) == shard
        (one,) = await hands.turn()  # they share its slot
        (other,) = await hands.end(one)
        assert {one, other} == {first, second}
        await hands.end(other)


async def test_a_workflow_whose_gates_use_several_keys_is_on_one_shard(
    hands: Hands, store: ShardedStore
) -> None:
    hands.declare("w", concurrency=[Limit(key="a", max=9), Limit(key="b", max=9, name="other")])
    hands.declare("s", concurrency=Limit(None, max=9, shared="api"))
    await hands.register()
    for name in ("w", "s"):
        runs = [await hands.submit(name, params={"a": n, "b": str(n)}) for n in range(9)]
        assert len({await shard_of(store, run) for run in runs}) == 1


async def test_runs_without_gates_are_spread_and_their_ids_say_where(
    hands: Hands, store: ShardedStore
) -> None:
    hands.declare("w")
    await hands.register()
    runs = [await hands.submit("w") for _ in range(6)]
    places = [await shard_of(store, run) for run in runs]
    assert set(places) == set(range(SHARDS))
    assert [carried(run) for run in runs] == places


async def test_two_shared_names_on_one_workflow_are_refused(hands: Hands) -> None:
    hands.declare("w", concurrency=[Limit(key="a", max=1, shared="x"), Limit(key="b", max=1, shared="y")])
    with pytest.raises(ConfigurationError, match="one shared name"):
        await hands.register()
    with pytest.raises(ConfigurationError, match="one shared name"):
        await hands.submit("w", params={"a": "1", "b": "2"})


async def test_a_shared_gate_that_would_be_counted_in_two_ways_is_refused_when_it_is_declared(
    hands: Hands,
) -> None:
    hands.declare("a", **by_key(shared="api"))
    hands.declare("b", concurrency=[Limit(key="k", max=1, shared="api"), Limit(key="j", max=1)])
    with pytest.raises(ConfigurationError, match=r"gate 'api'.*exact"):
        await hands.register()


async def test_a_shared_gate_that_would_be_counted_in_two_ways_is_refused_when_runs_meet(
    hands: Hands,
) -> None:
    """Two deploys that know nothing of each other: whoever comes second is refused, until the first has ended."""
    hands.declare("a", **by_key(shared="api"))
    hands.declare("b", concurrency=[Limit(key="k", max=1, shared="api"), Limit(key="j", max=1)])
    await hands.store.register(_only(hands, "a"))
    first = await hands.submit("a", params={"k": key_on(1)})
    with pytest.raises(ShardMismatch, match=r"'b'.*'a', which has a gate in common.*unfinished \(" + first):
        await hands.submit("b", params={"k": key_on(1), "j": "x"})
    assert await hands.turn() == [first]
    await hands.end(first)
    second = await hands.submit("b", params={"k": key_on(1), "j": "x"})
    with pytest.raises(ShardMismatch, match="'a'.*" + second):
        await hands.submit("a", params={"k": key_on(1)})


def _only(hands: Hands, name: str) -> object:
    """A registration of one of the declared workflows."""
    from pyrula.policies.declared import to_json
    from pyrula.store.protocol import Registration

    return Registration(
        incarnation=hands.incarnation,
        worker_id="w",
        lease=30_000_000,
        declarations={name: msgspec.json.encode(to_json(hands.declared[name]))},
        codes={name: "code"},
    )


async def test_a_changed_routing_waits_for_the_runs_of_before(hands: Hands, store: ShardedStore) -> None:
    hands.declare("w", **by_key())
    await hands.register()
    first = await hands.submit("w", params={"k": key_on(2)})
    hands.declare("w", concurrency=Limit(None, max=1))
    with pytest.raises(
        ShardMismatch, match=rf"'w'.*by the key's value.*{first}.*Let them end or cancel them first"
    ):
        await hands.register()
    with pytest.raises(ShardMismatch, match="cancel them"):
        await hands.submit("w", params={"k": key_on(2)})
    await store.cancel([first])
    await hands.register()
    second = await hands.submit("w", params={"k": key_on(2)})
    assert await hands.turn() == [second]
    hands.declare("w", **by_key())
    with pytest.raises(ShardMismatch, match=second):
        await hands.submit("w", params={"k": key_on(2)})


async def test_a_refused_routing_leaves_the_old_one_as_it_was(hands: Hands, store: ShardedStore) -> None:
    hands.declare("w", **by_key())
    await hands.register()
    before = hands.stamped("w", {"k": key_on(2)})
    await hands.submit("w", params={"k": key_on(2)})
    hands.declare("w", concurrency=Limit(None, max=1))
    with pytest.raises(ShardMismatch):
        await hands.submit("w", params={"k": "x"})
    hands.declare("w", **by_key())
    again = await hands.submit("w", params={"k": key_on(2)})
    assert hands.stamped("w", {"k": key_on(2)}) == before
    assert await shard_of(store, again) == 2


async def test_a_new_key_of_the_same_kind_is_no_changed_routing(hands: Hands) -> None:
    hands.declare("w", **by_key("k"))
    await hands.register()
    await hands.submit("w", params={"k": "1"})
    hands.declare("w", **by_key("user"))
    await hands.register()
    await hands.submit("w", params={"user": "1"})


async def test_events_that_wait_hold_a_routing_as_runs_do(hands: Hands, store: ShardedStore) -> None:
    trigger = Collect(key="k", max_events=9, window_seconds=60)
    hands.declare("w", trigger=trigger, **by_key("key"))
    await hands.register()
    await hands.trigger("w", {"k": key_on(1)})
    hands.declare("w", trigger=trigger, concurrency=Limit(None, max=1))
    with pytest.raises(ShardMismatch, match=r"buffered.*client\.flush"):
        await hands.register()
    run = await store.flush("w", key_on(1))
    assert run is not None
    await hands.turn()
    await hands.end(run)
    await hands.register()


async def test_a_batch_is_on_the_shard_of_its_gates_and_an_event_counts_once(
    hands: Hands, store: ShardedStore
) -> None:
    hands.declare("gated", trigger=Collect(key="k", max_events=2, window_seconds=60), **by_key("key"))
    hands.declare("free", trigger=Collect(key="k", max_events=2, window_seconds=60))
    await hands.register()
    for name in ("gated", "free"):
        for shard in range(SHARDS):
            key = key_on(shard)
            assert await hands.trigger(name, {"k": key}, "e1") is None
            assert await hands.trigger(name, {"k": key}, "e1") is None
            run = await hands.trigger(name, {"k": key}, "e2")
            assert run is not None and run == await hands.trigger(name, {"k": key}, "e2")
            if name == "gated":
                assert await shard_of(store, run) == shard
    started = await hands.turn()
    assert len(started) == 2 * SHARDS
    await hands.end(*started)


async def test_a_schedule_is_on_one_shard_and_ticks_once(hands: Hands, store: ShardedStore) -> None:
    from pyrula.store.protocol import Submission

    hands.declare("w")
    hands.declare("g", **by_key())
    every = msgspec.json.encode(Every(60).declaration())

    def run(name: str, **params: object) -> Submission:
        return Submission(
            workflow=name, params=msgspec.json.encode(params), stamped=hands.stamped(name, dict(params))
        )

    ticks = {"w": [(every, run("w"))], "g": [(every, run("g", k=key_on(2))), (every, run("g", k=key_on(0)))]}
    await hands.register(schedules=ticks)
    assert [(row["workflow"], row["number"]) for row in await store.schedules()] == [
        ("g", 0),
        ("g", 1),
        ("w", 0),
    ]
    await hands.move(61)
    started = await hands.turn()
    assert len(started) == 3
    assert {await shard_of(store, name) for name in started if name.startswith("g")} == {0, 2}
    await hands.end(*started)
    await hands.register()
    assert await store.schedules() == []


async def test_who_is_cancelled_while_a_routing_changes_goes_at_once(
    hands: Hands, store: ShardedStore
) -> None:
    """As a body does whose lease is lost: it may not go on beside the next one until a slow shard has answered."""
    hands.declare("w", **by_key())
    there, asked, back = store.shard(1), asyncio.Event(), asyncio.Event()
    write = there.write

    async def wait_and_write(verb: Any) -> Any:
        asked.set()
        await back.wait()
        return await write(verb)

    there.write = wait_and_write  # type: ignore[method-assign]  # for as long as it is slow
    submitting = asyncio.ensure_future(hands.submit("w", params={"k": key_on(0)}))
    await asyncio.wait_for(asked.wait(), 5)
    submitting.cancel()
    done, _ = await asyncio.wait([submitting], timeout=1)
    assert done and submitting.cancelled()
    del there.write
    back.set()
    run_id = await hands.submit("w", params={"k": key_on(0)})
    await hands.register()
    assert await hands.turn() == [run_id]
    await hands.end(run_id)


async def test_restamp_moves_no_run_to_another_shard(hands: Hands, store: ShardedStore) -> None:
    hands.declare("w")
    await hands.register()
    runs = [await hands.submit("w", params={"k": key_on(1)}) for _ in range(3)]
    hands.declare("w", **by_key())
    await hands.register()

    def stamper(params: bytes, priority: int) -> Stamped:
        return hands.stamped("w", decode(params), priority)

    with pytest.raises(ShardMismatch, match="submit them anew"):
        await store.restamp("w", stamper)
    assert set(await hands.turn()) == set(runs)


async def test_restamp_declares_where_runs_go_from_now_on(hands: Hands, store: ShardedStore) -> None:
    """From a process that no worker's registration went before."""
    hands.declare("w")
    await hands.register()
    runs = [await hands.submit("w", id_of(shard), params={"k": key_on(shard)}) for shard in range(SHARDS)]
    hands.declare("w", **by_key())

    def stamper(params: bytes, priority: int) -> Stamped:
        return hands.stamped("w", decode(params), priority)

    assert await store.restamp("w", stamper) == SHARDS
    assert set(await hands.turn()) == set(runs)
    assert [gate.in_use for gate in await store.gates(None)] == [1] * SHARDS
    await hands.end(*runs)


async def test_a_run_of_an_earlier_routing_is_not_taken_up_again(hands: Hands, store: ShardedStore) -> None:
    name = next(name for n in range(99) if place(name := f"w{n}", SHARDS) != place("", SHARDS))
    hands.declare(name, concurrency=Limit(None, max=1))
    await hands.register()
    first = await hands.submit(name, params={"k": "x"})
    await hands.turn()
    await hands.fail(first)
    hands.declare(name, **by_key())
    await hands.register()
    with pytest.raises(ShardMismatch, match="submit it anew"):
        await store.retry([first])


async def test_a_gate_is_steered_on_every_shard(hands: Hands, store: ShardedStore) -> None:
    hands.declare("w", **by_key(name="g"))
    await hands.register()
    await store.override("g", None, 2, None)
    for n in range(3 * SHARDS):
        await hands.submit("w", params={"k": key_on(n % SHARDS), "n": n})
    assert len(await hands.turn()) == 2 * SHARDS
    await store.pause("g", key_on(1), 60_000_000)
    gates = {gate.key: gate for gate in await store.gates("g")}
    assert sorted(gates) == sorted(key_on(shard) for shard in range(SHARDS))
    assert {key for key, gate in gates.items() if gate.paused_until} == {key_on(1)}
    ended = await hands.end(*list(hands.executing))
    assert len(ended) == 2
    await store.resume("g", key_on(1))
    assert len(await hands.turn()) == 1
