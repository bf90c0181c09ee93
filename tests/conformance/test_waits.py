import pytest

from pyrula.clock import SECOND
from pyrula.errors import LeaseLost
from pyrula.model.lease import Lease
from pyrula.model.outcome import Completed, Outcome, Parked
from pyrula.model.step import Entry
from pyrula.policies.limit import Limit
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import Hands, child, event, sleep


async def started(hands: Hands, *run_ids: str) -> None:
    hands.declare("w")
    await hands.register()
    await hands.submit_many("w", run_ids)
    assert set(await hands.turn()) == set(run_ids)


async def test_a_sleep_ends_when_it_is_due(hands: Hands) -> None:
    await started(hands, "r", "other")
    now = await hands.store.now()
    assert await hands.park("r", sleep(0, now + 5 * SECOND)) == []
    assert await hands.state("r") == "parked"
    await hands.move(4.999999)
    assert await hands.turn() == []
    await hands.move(0.000001)
    assert await hands.turn() == ["r"]
    (entry,) = hands.executing["r"].log
    assert (entry.status, entry.value, entry.order) == ("done", b"null", 1)


async def test_an_event_that_was_sent_earlier_is_kept_for_the_wait(hands: Hands) -> None:
    await started(hands, "r", "other")
    assert await hands.store.send_event("r", "go", b"1")
    assert await hands.store.send_event("r", "else", b"2")
    assert await hands.park("r", event(0, "go")) == ["r"]
    assert hands.executing["r"].log[0].value == b"1"
    assert await hands.state("other") == "executing"


async def test_two_waits_for_one_event_take_them_in_order_of_their_places(hands: Hands) -> None:
    await started(hands, "r")
    waits = [event(0, "go", branch="10"), event(3, "go", branch="2"), event(1, "go", branch="2")]
    await hands.park("r", *waits)
    assert await hands.store.send_event("r", "go", b'"first"')
    assert await hands.turn() == ["r"]
    await hands.store.send_event("r", "go", b'"second"')
    await hands.store.send_event("r", "go", b'"third"')
    log = await hands.store.log("r")
    assert [(e.branch, e.number, e.value, e.order) for e in log] == [
        ("2", 1, b'"first"', 1),
        ("2", 3, b'"second"', 2),
        ("10", 0, b'"third"', 3),
    ]
    await hands.turn()
    assert hands.last is not None
    assert [entry.value for entry in await hands.store.read_log(hands.executing["r"].lease)][-1] == b'"third"'


async def test_a_run_that_executes_is_told_that_a_wait_of_it_is_over(hands: Hands) -> None:
    await started(hands, "r", "other")
    lease = hands.executing["r"].lease
    (entry,) = await hands.store.record("w1", lease, [event(0, "go", branch="0")])
    assert entry.status == "waiting"
    await hands.store.send_event("r", "go", b"7")
    await hands.turn()
    assert hands.last is not None
    assert [(s.lease, s.cancel) for s in hands.last.signals] == [(lease, False)]
    assert [e.value for e in await hands.store.read_log(lease)] == [b"7"]


async def test_a_recorded_wait_that_is_over_already_is_answered_so(hands: Hands) -> None:
    await started(hands, "r")
    await hands.store.send_event("r", "go", b"7")
    step = Entry("", 0, "step", "s", "done", b"1")
    done, wait = await hands.store.record("w1", hands.executing["r"].lease, [step, event(1, "go")])
    assert (done.order, wait.order, wait.status, wait.value) == (1, 2, "done", b"7")
    again, _ = await hands.store.record(
        "w1", hands.executing["r"].lease, [Entry("", 0, "step", "s", "done", b"2"), event(1, "go")]
    )
    assert again.value == b"1"  # once recorded, never again


async def test_an_event_id_counts_once(hands: Hands) -> None:
    await started(hands, "r", "other")
    for _ in range(2):
        assert await hands.store.send_event("r", "go", b"1", "e1")
    assert await hands.store.send_event("other", "go", b"1", "e1")
    await hands.park("r", event(0, "go"))
    assert await hands.park("r", event(1, "go")) == []
    await hands.end("other")
    assert await hands.store.send_event("other", "go", b"1", "e1")
    assert not await hands.store.send_event("other", "go", b"1", "e2")
    assert not await hands.store.send_event("nobody", "go", b"1")


async def test_a_wait_times_out_and_an_event_that_came_first_wins(hands: Hands) -> None:
    await started(hands, "r", "s")
    now = await hands.store.now()
    await hands.park("r", event(0, "go", due=now + SECOND))
    await hands.park("s", event(0, "go", due=now + SECOND))
    await hands.move(0.5)
    await hands.store.send_event("s", "go", b"1")
    assert await hands.turn() == ["s"]
    await hands.move(0.5)
    assert await hands.turn() == ["r"]
    assert hands.executing["r"].log[0].status == "timeout"
    assert hands.executing["s"].log[0].status == "done"
    await hands.move(5)
    assert await hands.turn() == []


async def test_a_child_that_ended_before_its_parent_parks_is_not_waited_for(hands: Hands) -> None:
    await started(hands, "p", "other")
    await hands.submit("w", "c", parent="p")
    await hands.turn()
    await hands.end("c", outcome=Completed(b"42"))
    assert await hands.park("p", child(0, "c")) == ["p"]
    (entry,) = hands.executing["p"].log
    assert (entry.status, entry.value) == ("done", b"42")


async def test_a_childs_end_wakes_its_parent_with_what_it_ended_with(hands: Hands) -> None:
    await started(hands, "p", "q")
    for parent, its_child in (("p", "c"), ("q", "d")):
        await hands.submit("w", its_child, parent=parent)
    await hands.park("p", child(0, "c"))
    await hands.park("q", child(0, "d"))
    assert await hands.end("c", outcome=Completed(b"42")) == ["p"]
    assert await hands.fail("d", "too bad") == ["q"]
    (entry,) = hands.executing["q"].log
    assert entry.status == "error"
    assert b"too bad" in (entry.value or b"") and b"run_failed" in (entry.value or b"")


@pytest.mark.parametrize("parent_first", [True, False])
async def test_a_child_that_ends_in_the_turn_in_which_its_parent_parks_again_wakes_it(
    hands: Hands, parent_first: bool
) -> None:
    await started(hands, "p")
    for run_id in ("c", "d"):
        await hands.submit("w", run_id, parent="p")
    await hands.turn()
    await hands.park("p", child(0, "c", branch="0"), child(0, "d", branch="1"))
    assert await hands.end("c") == ["p"]
    leases = {run_id: hands.executing.pop(run_id).lease for run_id in ("p", "d")}
    ends: list[tuple[Lease, Outcome]] = [(leases["p"], Parked(())), (leases["d"], Completed(b"42"))]
    assert await hands.turn(outcomes=ends if parent_first else ends[::-1]) == ["p"]
    assert [entry.value for entry in hands.executing["p"].log] == [b"null", b"42"]


async def test_a_wait_for_a_run_that_is_not_there_is_an_error_and_no_hang(hands: Hands) -> None:
    await started(hands, "p")
    assert await hands.park("p", child(0, "nobody")) == ["p"]
    assert b"run_not_found" in (hands.executing["p"].log[0].value or b"")


async def test_a_wait_for_a_child_can_time_out(hands: Hands) -> None:
    await started(hands, "p")
    now = await hands.store.now()
    await hands.submit("w", "c", parent="p", delay=100)
    await hands.park("p", child(0, "c", due=now + SECOND))
    await hands.move(1)
    assert await hands.turn() == ["p"]
    assert hands.executing["p"].log[0].status == "timeout"


async def test_a_parked_run_gives_its_slot_back_and_goes_on_before_fresh_ones(hands: Hands) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=1))
    await hands.register()
    for run_id in ("r1", "r2", "r3"):
        await hands.submit("w", run_id, params={"k": "a"})
    await hands.submit("w", "b", params={"k": "b"})
    assert await hands.turn() == ["r1", "b"]
    assert await hands.park("r1", event(0, "go")) == ["r2"]
    await hands.store.send_event("r1", "go", b"1")
    assert await hands.turn() == []
    assert await hands.end("r2") == ["r1"]
    assert await hands.end("r1") == ["r3"]


async def test_a_store_time_that_does_not_follow_the_wall_keeps_its_timers(
    hands: Hands, clock: VirtualClock
) -> None:
    await started(hands, "r")
    now = await hands.store.now()
    await hands.park("r", sleep(0, now + 5 * SECOND))
    clock.step_wall(-3600)
    await hands.turn()
    await hands.move(4)
    assert await hands.turn() == []
    await hands.move(1)
    assert await hands.turn() == ["r"]


async def test_nothing_is_recorded_under_a_lease_that_is_lost(hands: Hands) -> None:
    await started(hands, "r", "other")
    lease = hands.executing["r"].lease
    await hands.store.leave("w1")
    with pytest.raises(LeaseLost):
        await hands.store.record("w1", lease, [sleep(0, 1)])
    assert await hands.store.log("r") == []
