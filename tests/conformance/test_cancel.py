from pyrula.clock import SECOND
from pyrula.model.outcome import Cancelled, Retry
from pyrula.policies.limit import Limit
from pyrula.policies.rate import Rate
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import Hands, child, event


async def test_a_queued_run_is_cancelled_at_once_and_takes_no_token(hands: Hands) -> None:
    hands.declare("w", rate_limit=Rate(key="k", per_second=1, burst=1))
    await hands.register()
    ids = [f"a{i}" for i in range(1000)]
    await hands.submit_many("w", ids, k="a")
    await hands.submit("w", "b0", params={"k": "b"})
    assert await hands.turn() == ["a0", "b0"]
    assert set(await hands.store.cancel(ids[1:999])) == {"queued"}
    await hands.run_until(2)
    assert hands.starts("a999") == [1.0]
    assert await hands.state("a5") == "cancelled"


async def test_a_cancelled_run_that_executes_keeps_its_slot_until_its_body_has_stopped(hands: Hands) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=1))
    await hands.register()
    for run_id in ("a1", "a2", "a3"):
        await hands.submit("w", run_id, params={"k": "a"})
    await hands.submit("w", "b1", params={"k": "b"})
    assert await hands.turn() == ["a1", "b1"]
    assert await hands.store.cancel(["a1", "nobody"]) == ["executing", ""]
    assert await hands.turn() == []
    assert hands.last is not None
    assert [signal.cancel for signal in hands.last.signals] == [True]
    await hands.turn()
    assert hands.last.signals == ()  # told once
    assert await hands.state("a1") == "executing"
    await hands.move(3)
    assert await hands.end("a1", outcome=Cancelled()) == ["a2"]
    assert await hands.state("a1") == "cancelled"
    assert await hands.store.cancel(["a1"]) == ["cancelled"]
    assert await hands.end("a2") == ["a3"]


async def test_a_run_that_is_to_be_cancelled_ends_so_whatever_its_body_answers(hands: Hands) -> None:
    hands.declare("w")
    await hands.register()
    for run_id in ("r1", "r2"):
        await hands.submit("w", run_id)
    await hands.turn()
    await hands.store.cancel(["r1"])
    await hands.park("r1", event(0, "go"))
    assert await hands.state("r1") == "cancelled"
    assert await hands.state("r2") == "executing"


async def test_a_cancelled_run_that_is_not_due_never_starts(hands: Hands, clock: VirtualClock) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=1))
    await hands.register()
    await hands.submit("w", "delayed", params={"k": "a"}, delay=60)
    await hands.submit("w", "at", params={"k": "a"}, run_at=clock.wall() + 60 * SECOND)
    await hands.submit("w", "fails", params={"k": "a"})
    await hands.submit("w", "kept", params={"k": "a"}, delay=60)
    assert await hands.turn() == ["fails"]
    await hands.end("fails", outcome=Retry(b'{"type":"E","message":"no"}', 60 * SECOND))
    assert await hands.state("fails") == "parked"
    await hands.move(10)
    states = await hands.store.cancel(["delayed", "at", "fails"])
    assert states == ["queued", "queued", "parked"]
    await hands.run_until(100)
    assert [run_id for _, run_id in hands.started] == ["fails", "kept"]
    assert hands.starts("kept") == [60.0]
    results = await hands.store.results(["delayed", "at", "fails"])
    assert {result[0] for result in results if result} == {"cancelled"}


async def test_cancelling_a_parent_cancels_its_children_and_theirs(hands: Hands) -> None:
    hands.declare("w")
    await hands.register()
    await hands.submit("w", "top")
    await hands.submit("w", "other")
    await hands.turn()
    await hands.submit("w", "executing", parent="top")
    await hands.submit("w", "late", parent="top", delay=50)
    await hands.turn()
    await hands.submit("w", "grandchild", parent="executing", delay=50)
    await hands.park("top", child(0, "executing"))
    assert await hands.state("top") == "parked"
    assert await hands.store.cancel(["top"]) == ["parked"]
    await hands.turn()
    states = [await hands.state(run_id) for run_id in ("top", "executing", "late", "grandchild", "other")]
    assert states == ["cancelled", "executing", "cancelled", "cancelled", "executing"]
    await hands.end("executing", outcome=Cancelled())
    assert await hands.state("executing") == "cancelled"


async def test_a_cancelled_child_lets_its_parent_go_on_with_that_error(hands: Hands) -> None:
    hands.declare("parent")
    hands.declare("child", concurrency=Limit(key="k", max=1))
    await hands.register()
    await hands.submit("parent", "p")
    await hands.submit("child", "blocks", params={"k": "a"})
    await hands.turn()
    await hands.submit("child", "c", params={"k": "a"}, parent="p")
    await hands.submit("child", "free", params={"k": "b"})
    assert await hands.park("p", child(0, "c")) == ["free"]
    await hands.store.cancel(["c"])
    assert await hands.turn() == ["p"]
    (entry,) = hands.executing["p"].log
    assert (entry.status, b"run_cancelled" in (entry.value or b"")) == ("error", True)


async def test_a_child_that_expires_lets_its_parent_go_on(hands: Hands) -> None:
    hands.declare("parent")
    hands.declare("child", concurrency=Limit(key="k", max=1))
    await hands.register()
    await hands.submit("parent", "p")
    await hands.submit("child", "blocks", params={"k": "a"})
    await hands.turn()
    await hands.submit("child", "c", params={"k": "a"}, parent="p", expires_in=1)
    await hands.park("p", child(0, "c"))
    await hands.move(1)
    assert await hands.turn() == ["p"]
    (entry,) = hands.executing["p"].log
    assert b"run_expired" in (entry.value or b"")
    assert await hands.state("c") == "expired"
