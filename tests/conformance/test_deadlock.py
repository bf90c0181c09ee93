from pyrula.policies.limit import Limit
from pyrula.store.shard.deadlock import Waiting, cycle_of, stuck
from tests.conformance.hands import Hands, child, event


async def crossed(hands: Hands, most: int = 1) -> None:
    """Two parents, each holding the gate that the other's child needs."""
    hands.declare("one", concurrency=Limit(key="k", max=most, name="g", hold="run"))
    hands.declare("two", concurrency=Limit(key="k", max=most, name="h", hold="run"))
    await hands.register()
    await hands.submit("one", "p1", params={"k": "a"})
    await hands.submit("two", "p2", params={"k": "a"})
    await hands.submit("one", "free", params={"k": "b"})
    await hands.turn()
    await hands.submit("two", "c1", params={"k": "a"}, parent="p1")
    await hands.submit("one", "c2", params={"k": "a"}, parent="p2")


async def test_a_cycle_of_held_slots_fails_its_youngest_waiting_parent(hands: Hands) -> None:
    await crossed(hands)
    await hands.park("p1", child(0, "c1"))
    await hands.park("p2", child(0, "c2"))
    await hands.move(10)
    assert await hands.turn() == ["p2"]
    (entry,) = hands.executing["p2"].log
    assert entry.status == "error" and b"slot_deadlock" in (entry.value or b"")
    for name in (b"p1", b"p2", b"c1", b"c2", b"gate g", b"gate h"):
        assert name in (entry.value or b"")
    assert await hands.state("c2") == "cancelled"
    assert await hands.end("p2") == ["c1"]
    assert await hands.end("c1") == ["p1"]
    assert await hands.state("free") == "executing"


async def test_what_an_event_or_a_free_slot_can_end_is_no_deadlock(hands: Hands) -> None:
    await crossed(hands)
    await hands.park("p1", child(0, "c1"), event(0, "go", branch="0"))
    await hands.park("p2", child(0, "c2"))
    await hands.move(20)
    assert await hands.turn() == []
    await hands.store.send_event("p1", "go", b"1")
    assert await hands.turn() == ["p1"]


async def test_a_parent_three_deep_waits_for_its_grandchild_without_harm(hands: Hands) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=1, name="g", hold="run"))
    hands.declare("other", concurrency=Limit(key="k", max=1, name="x"))
    await hands.register()
    await hands.submit("w", "p", params={"k": "a"})
    await hands.submit("other", "blocks", params={"k": "a"})
    await hands.turn()
    await hands.submit("w", "c", params={"k": "a"}, parent="p")
    await hands.park("p", child(0, "c"))
    await hands.submit("other", "d", params={"k": "a"}, parent="c")
    await hands.park("c", child(0, "d"))
    await hands.move(20)
    assert await hands.turn() == []
    assert await hands.end("blocks") == ["d"]


def test_a_gate_with_room_or_a_holder_that_goes_on_is_no_deadlock() -> None:
    waiting = Waiting(
        runs={1: "p", 2: "c", 3: "q"},
        children={1: [2]},
        gates={2: b"g"},
        inside={b"g": [1, 3]},
        room={b"g": 2},
    )
    assert stuck(waiting) == frozenset()  # q executes
    waiting.inside[b"g"], waiting.room[b"g"] = [1], 2
    assert stuck(waiting) == frozenset()  # a place is free: the lane has only not been looked at
    waiting.room[b"g"] = 1
    assert stuck(waiting) == {1, 2}
    assert cycle_of(waiting, stuck(waiting)) == [1, 2]


def test_who_hangs_on_to_a_cycle_is_not_in_it() -> None:
    waiting = Waiting(
        children={1: [2], 5: [6], 9: [5]},
        gates={2: b"h", 6: b"g"},
        inside={b"g": [1], b"h": [5]},
        room={b"g": 1, b"h": 1},
    )
    assert stuck(waiting) == {1, 2, 5, 6, 9}
    assert sorted(cycle_of(waiting, stuck(waiting))) == [1, 2, 5, 6]
