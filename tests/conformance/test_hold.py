from pyrula.clock import SECOND
from pyrula.model.outcome import Cancelled, Completed, Released, Retry
from pyrula.policies.limit import Limit
from pyrula.policies.rate import Rate
from tests.conformance.hands import LEASE, Hands, child, event, sleep


async def in_use(hands: Hands, name: str = "g", key: str = "a") -> int:
    (gate,) = [gate for gate in await hands.store.gates(name, key) if gate.kind == "limit"]
    return int(gate.in_use)


async def held(hands: Hands, most: int = 1, **more: object) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=most, name="g", hold="run"), **more)
    await hands.register()


async def test_a_run_that_holds_its_slot_keeps_it_while_parked(hands: Hands) -> None:
    await held(hands)
    await hands.submit_many("w", ["r1", "r2"], k="a")
    await hands.submit("w", "b", params={"k": "b"})
    assert await hands.turn() == ["r1", "b"]
    assert await hands.park("r1", event(0, "go")) == []
    assert await in_use(hands) == 1
    await hands.store.send_event("r1", "go", b"1")
    assert await hands.turn() == ["r1"]
    assert await in_use(hands) == 1
    assert await hands.end("r1") == ["r2"]


async def test_a_run_keeps_its_slot_while_it_backs_off_and_takes_one_token_an_attempt(hands: Hands) -> None:
    await held(hands, rate_limit=Rate(key="k", per_second=1, burst=1, name="r"))
    await hands.submit_many("w", ["r1", "r2"], k="a")
    assert await hands.turn() == ["r1"]
    await hands.end("r1", outcome=Retry(b"{}", 3600 * SECOND))
    await hands.run_until(3601)
    assert hands.started == [(0.0, "r1"), (3600.0, "r1"), (3601.0, "r2")]


async def test_a_run_keeps_its_slot_over_a_lapse_of_its_worker(hands: Hands) -> None:
    await held(hands)
    await hands.submit_many("w", ["r1", "r2"], k="a")
    assert await hands.turn() == ["r1"]
    other = Hands(hands.store, hands.clock, "w2")
    other.declared = hands.declared
    await other.register()
    other.clock.move(other.clock.monotonic() + LEASE)
    other.store.heartbeat("w2")
    assert await other.turn() == ["r1"]
    assert await other.end("r1") == ["r2"]
    assert await in_use(hands) == 1
    await hands.register()


async def test_a_run_that_is_handed_back_keeps_its_slot(hands: Hands) -> None:
    await held(hands)
    await hands.submit_many("w", ["r1", "r2"], k="a")
    await hands.turn()
    assert await hands.end("r1", outcome=Released()) == ["r1"]
    assert await in_use(hands) == 1


async def test_a_cancelled_run_gives_up_what_it_held_while_parked(hands: Hands) -> None:
    await held(hands)
    await hands.submit_many("w", ["r1", "r2"], k="a")
    await hands.turn()
    await hands.park("r1", event(0, "go"))
    await hands.store.cancel(["r1"])
    assert await hands.turn() == ["r2"]


async def test_a_child_shares_the_slot_that_its_waiting_parent_holds(hands: Hands) -> None:
    """A workflow that runs itself as a child, three deep, through a gate with room for one."""
    await held(hands)
    await hands.submit("w", "r1", params={"k": "a"})
    await hands.submit("w", "stranger", params={"k": "a"})
    await hands.submit("w", "b", params={"k": "b"})
    assert await hands.turn() == ["r1", "b"]
    await hands.submit("w", "r2", params={"k": "a"}, parent="r1")
    assert await hands.turn() == []  # its parent executes
    assert await hands.park("r1", child(0, "r2")) == ["r2"]
    await hands.submit("w", "r3", params={"k": "a"}, parent="r2")
    assert await hands.park("r2", child(0, "r3")) == ["r3"]
    assert await in_use(hands) == 1
    assert await hands.end("r3", outcome=Completed(b"3")) == ["r2"]
    assert await hands.end("r2", outcome=Completed(b"2")) == ["r1"]
    assert await in_use(hands) == 1
    assert await hands.end("r1") == ["stranger"]
    assert await in_use(hands) == 1


async def test_of_a_parent_and_its_children_one_executes_at_a_time(hands: Hands) -> None:
    await held(hands)
    await hands.submit("w", "p", params={"k": "a"})
    await hands.turn()
    for its_child in ("c1", "c2"):
        await hands.submit("w", its_child, params={"k": "a"}, parent="p")
    now = await hands.store.now()
    assert await hands.park("p", sleep(0, now + SECOND)) == ["c1"]
    await hands.move(1)
    assert await hands.turn() == []  # the parent may go on, and waits for its child to stop
    assert await hands.end("c1") == ["p"]
    assert await hands.end("p") == ["c2"]
    assert await in_use(hands) == 1


async def test_a_child_that_executes_inherits_the_slot_of_a_parent_that_ends(hands: Hands) -> None:
    await held(hands)
    await hands.submit("w", "p", params={"k": "a"})
    await hands.turn()
    await hands.submit("w", "c", params={"k": "a"}, parent="p")
    await hands.submit("w", "d", params={"k": "a"}, parent="p")
    await hands.submit("w", "stranger", params={"k": "a"})
    assert await hands.park("p", event(0, "go")) == ["c"]
    await hands.store.cancel(["p"])  # and its children: d, which was queued, and c, when it has stopped
    assert await hands.turn() == []
    assert await in_use(hands) == 1
    assert await hands.state("d") == "cancelled"
    assert await hands.end("c", outcome=Cancelled()) == ["stranger"]
    assert await in_use(hands) == 1


async def test_an_heir_keeps_its_slot_for_its_own_family(hands: Hands) -> None:
    await held(hands)
    await hands.submit("w", "p", params={"k": "a"})
    await hands.turn()
    await hands.submit("w", "c", params={"k": "a"}, parent="p")
    now = await hands.store.now()
    assert await hands.park("p", event(0, "go", due=now + SECOND)) == ["c"]
    await hands.submit("w", "d", params={"k": "a"}, parent="c")
    await hands.park("c", child(0, "d"))
    await hands.move(1)
    assert await hands.turn() == []  # d has its turn on the slot
    await hands.end("d")
    # both may go on, one at a time: p was first
    (first,) = hands.executing
    await hands.end(first)
    assert await in_use(hands) == 1
    (second,) = hands.executing
    assert {first, second} == {"p", "c"}
    await hands.end(second)
    assert await in_use(hands) == 0


async def test_a_run_retried_by_hand_starts_like_a_new_one(hands: Hands) -> None:
    await held(hands)
    await hands.submit("w", "r1", params={"k": "a"})
    await hands.turn()
    await hands.fail("r1")
    await hands.submit("w", "r2", params={"k": "a"})
    assert await hands.turn() == ["r2"]
    assert await hands.store.retry(["r1"]) == ["failed"]
    assert await hands.turn() == []
    assert await hands.end("r2") == ["r1"]
    assert hands.executing["r1"].attempt == 2
    await hands.park("r1", event(0, "go"))
    assert await in_use(hands) == 1


async def test_two_held_gates_are_held_both(hands: Hands) -> None:
    hands.declare(
        "w",
        concurrency=[
            Limit(key="k", max=1, name="g", hold="run"),
            Limit(key="j", max=1, name="h", hold="run"),
        ],
    )
    await hands.register()
    await hands.submit("w", "r1", params={"k": "a", "j": "x"})
    await hands.turn()
    await hands.submit("w", "c", params={"k": "a", "j": "x"}, parent="r1")
    assert await hands.park("r1", child(0, "c")) == ["c"]
    await hands.submit("w", "half", params={"k": "b", "j": "x"}, parent="r1")
    assert (await in_use(hands), await in_use(hands, "h", "x")) == (1, 1)
    assert len(await hands.end("c")) == 1  # r1 or half, not both
    (first,) = hands.executing
    assert len(await hands.end(first)) == 1
