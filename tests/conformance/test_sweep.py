from pyrula.model.outcome import Completed
from pyrula.policies.collect import Collect
from pyrula.policies.limit import Limit
from pyrula.store.protocol import Store
from pyrula.store.shard.sweep import sweep
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
    assert await write(store, lambda tx: sweep(tx, now + 1)) == 1
    assert await hands.park("p", child(0, "c")) == ["p"]
    assert hands.executing["p"].log[0].value == b"1"
    await hands.end("p")
    assert await write(store, lambda tx: sweep(tx, now + 1)) == 2


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
    await write(store, lambda tx: sweep(tx, now))
    again = await hands.trigger("w", {"k": "a"}, "e1")
    assert again not in (None, first)


async def test_lanes_that_stand_empty_go_and_come_back(hands: Hands, store: Store) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=1, hold="run"))
    await hands.register()
    for n in range(50):
        await hands.submit("w", f"r{n}", params={"k": f"k{n}"})
    await hands.turn()
    await hands.end(*[f"r{n}" for n in range(40)])
    await hands.park("r40", event(0, "go"))
    for _ in range(10):
        await hands.move(1)
        await write(store, lambda tx: sweep(tx, 0, 1000))
    empty = [
        await shard.read(lambda tx: tx.rows("sweep.empty_lanes", b"", 1000)) for shard in shards_of(store)
    ]
    assert sum(map(len, empty)) < 50
    await hands.store.send_event("r40", "go", b"1")
    await hands.submit("w", "again", params={"k": "k1"})
    await hands.submit("w", "behind", params={"k": "k40"})
    assert set(await hands.turn()) == {"r40", "again"}
