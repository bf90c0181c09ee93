"""Runs that have ended are kept for their retention, and then swept with their logs, events and ids."""

from __future__ import annotations

from functools import partial

from pyrula.model.outcome import Completed
from pyrula.policies.collect import Collect
from pyrula.policies.limit import Limit
from pyrula.store.protocol import Store
from pyrula.store.shard.sweep import OLDEST, sweep
from tests.conformance.hands import Hands, child, event, shards_of, write

DAY = 86_400


async def test_finished_runs_are_kept_for_their_retention_and_then_swept(hands: Hands) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=50))
    await hands.register()
    await hands.submit_many("w", [f"a{i}" for i in range(500)], k="a")
    await hands.submit_many("w", ["parked", "queued"], k="b")
    for _ in range(11):
        started = [run_id for run_id in list(hands.executing) if run_id.startswith("a")]
        if not started:
            await hands.turn()
        else:
            await hands.end(*started)
    await hands.park("parked", event(0, "go"))
    await hands.move(6.9 * DAY)
    await hands.register()
    await hands.turn()
    assert await hands.state("a7") == "completed"
    await hands.move(0.2 * DAY)
    await hands.register()
    for _ in range(4):
        await hands.turn()  # a batch each
    assert await hands.state("a7") == ""
    assert await hands.state("parked") == "parked"
    left, _ = await hands.store.runs(None, None, None, 1000, None)
    assert {run.run_id for run in left} == {"parked", "queued"}
    await hands.submit("w", "a7", params={"k": "other"})  # its id may be used again


async def test_a_child_is_kept_as_long_as_its_parent_is_open(hands: Hands, store: Store) -> None:
    hands.declare("w")
    await hands.register()
    await hands.submit_many("w", ["p", "alone"])
    await hands.turn()
    await hands.submit("w", "c", parent="p")
    await hands.turn()
    await hands.end("c", outcome=Completed(b"1"))
    await hands.end("alone")
    now = await store.now()
    assert await write(store, lambda tx: sweep(tx, now + 1).runs) == 1
    assert await hands.park("p", child(0, "c")) == ["p"]
    assert hands.executing["p"].log[0].value == b"1"
    await hands.end("p")
    assert await write(store, lambda tx: sweep(tx, now + 1).runs) == 2


async def test_children_kept_for_an_open_parent_are_passed_over_and_go_once_it_has_ended(
    hands: Hands, store: Store
) -> None:
    hands.declare("w")
    await hands.register()
    await hands.submit_many("w", ["p", "later"])
    await hands.turn()
    children = [f"c{n}" for n in range(450)]  # more than are looked at in one go
    for child_id in children:
        await hands.submit("w", child_id, parent="p")
    await hands.turn(500)
    await hands.end(*children)
    await hands.move(1)
    await hands.end("later")
    await hands.move(7 * DAY + 1)
    await hands.register()
    for _ in range(4):
        await hands.turn()
    assert await hands.state("later") == ""
    if store.shards == 1:  # a parent elsewhere has been told of the ends, and nothing need be kept
        assert await hands.state("c0") == await hands.state("c449") == "completed"
    await hands.end("p")
    for _ in range(5):
        await hands.move(1800)
        await hands.register()
        await hands.turn()
    assert await hands.state("c0") == await hands.state("c449") == ""
    assert await hands.state("p") == "completed"


async def test_a_sweep_goes_on_behind_the_last_run_it_looked_at(hands: Hands, store: Store) -> None:
    hands.declare("w")
    await hands.register()
    await hands.submit_many("w", ["p", "a", "b", "c"])
    await hands.turn()
    for child_id in ("k0", "k1", "k2"):
        await hands.submit("w", child_id, parent="p")
    await hands.turn()
    await hands.end("a", "k0", "k1", "k2", "b")  # at the same time
    await hands.move(1)
    await hands.end("c")
    now = await store.now()
    places = dict.fromkeys(shards_of(store), OLDEST)
    gone = 0
    for _ in range(6):
        for shard, behind in places.items():
            swept = await shard.write(partial(sweep, before=now + 1, limit=1, behind=behind))
            assert swept.more == (swept.to > behind)
            places[shard], gone = swept.to, gone + swept.runs
    assert [await hands.state(run_id) for run_id in ("a", "b", "c")] == ["", "", ""]
    if store.shards == 1:
        assert gone == 3
        assert await hands.state("k2") == "completed"


async def test_an_event_id_is_forgotten_with_its_run(hands: Hands, store: Store) -> None:
    hands.declare("w", trigger=Collect(key="k", max_events=1, window_seconds=60))
    await hands.register()
    first = await hands.trigger("w", {"k": "a"}, "e1")
    assert first is not None
    await hands.turn()
    await hands.end(first)
    assert await hands.trigger("w", {"k": "a"}, "e1") == first
    await hands.move(1)
    now = await store.now()
    await write(store, lambda tx: sweep(tx, now).runs)
    again = await hands.trigger("w", {"k": "a"}, "e1")
    assert again not in (None, first)
