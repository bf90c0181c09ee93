from pyrula.clock import SECOND
from pyrula.model.outcome import Failed, Parked, Retry, SetAside
from pyrula.model.step import Entry
from pyrula.policies.limit import Limit
from pyrula.policies.rate import Rate
from pyrula.store.shard.retry import to_drop
from tests.conformance.hands import Hands, child

ERROR = b'{"type":"ValueError","message":"no"}'


async def test_a_failed_run_retried_by_hand_waits_for_a_slot_and_takes_a_token(hands: Hands) -> None:
    limits = {"concurrency": Limit(key="k", max=2), "rate_limit": Rate(key="k", per_second=0.001, burst=4)}
    hands.declare("w", **limits)
    await hands.register()
    await hands.submit_many("w", ["failed", "r1"], k="a")
    await hands.submit("w", "b", params={"k": "b"})
    await hands.turn()
    await hands.fail("failed")
    await hands.submit("w", "r2", params={"k": "a"})
    await hands.turn()
    assert await hands.store.retry(["failed", "nobody", "r1"]) == ["failed", "", "executing"]
    assert await hands.state("failed") == "queued"
    assert await hands.turn() == []
    assert await hands.end("r1") == ["failed"]
    (gate,) = [gate for gate in await hands.store.gates(None, "a") if gate.kind == "rate"]
    assert gate.tokens == 0
    run = await hands.store.get("failed")
    assert run is not None and (run.attempt, run.finished_at) == (2, None)


async def test_a_hundred_cancelled_runs_taken_up_again_keep_to_their_rate(hands: Hands) -> None:
    hands.declare("w", rate_limit=Rate(key="k", per_second=40, burst=40))
    await hands.register()
    ids = [f"r{i}" for i in range(100)]
    await hands.submit_many("w", ids, k="a")
    await hands.store.cancel(ids)
    assert await hands.turn() == []
    assert set(await hands.store.retry(ids)) == {"cancelled"}
    await hands.run_until(2)
    starts = hands.starts(*ids)
    assert (starts.count(0.0), sum(at <= 1 for at in starts), max(starts)) == (40, 80, 1.5)


async def test_a_run_taken_up_again_keeps_its_log_but_for_the_step_that_failed(hands: Hands) -> None:
    hands.declare("w")
    await hands.register()
    await hands.submit_many("w", ["r", "other"])
    await hands.turn()
    entries = [Entry("", 0, "step", "a", "done", b"1"), Entry("", 1, "step", "b", "error", ERROR)]
    await hands.store.record("w1", hands.executing["r"].lease, entries)
    await hands.end("r", outcome=Failed(ERROR))
    await hands.store.retry(["r"])
    assert await hands.turn() == ["r"]
    assert [entry.name for entry in hands.executing["r"].log] == ["a"]
    (entry,) = await hands.store.record(
        "w1", hands.executing["r"].lease, [Entry("", 1, "step", "b", "done", b"2")]
    )
    assert entry.order == 3


async def test_a_run_that_backs_off_can_be_told_to_start_now(hands: Hands) -> None:
    hands.declare("w")
    await hands.register()
    await hands.submit_many("w", ["r", "other"])
    await hands.turn()
    await hands.end("r", outcome=Retry(ERROR, 3600 * SECOND))
    assert await hands.store.retry(["r"]) == ["parked"]
    assert await hands.turn() == ["r"]
    await hands.end("r")
    await hands.run_until(3600)
    assert len(hands.started) == 3


async def test_a_run_set_aside_is_taken_up_by_hand_or_by_other_code(hands: Hands) -> None:
    hands.declare("w")
    await hands.register({"w": "v1"})
    await hands.submit_many("w", ["r", "s", "other"])
    await hands.turn()
    for run_id in ("r", "s"):
        await hands.end(run_id, outcome=SetAside(ERROR, "v1"))
    assert (await hands.state("r"), await hands.state("other")) == ("parked", "executing")
    await hands.register({"w": "v1"})
    assert await hands.turn() == []
    assert await hands.store.retry(["s"]) == ["parked"]
    assert await hands.turn() == ["s"]
    await hands.register({"w": "v2"})
    assert await hands.turn() == ["r"]
    assert hands.executing["r"].attempt == 1
    run = await hands.store.get("r")
    assert run is not None and run.state == "executing"


async def test_a_worker_of_other_code_that_lives_already_takes_up_what_was_set_aside(hands: Hands) -> None:
    hands.declare("w")
    other = Hands(hands.store, hands.clock, "w2")
    other.declared = hands.declared
    await hands.register({"w": "v1"})
    await other.register({"w": "v2"})
    assert await other.turn() == []
    await hands.submit("w", "r")
    assert await hands.turn() == ["r"]
    assert await hands.end("r", outcome=SetAside(ERROR, "v1")) == []
    for _ in range(3):
        await hands.move(10)
        other.store.heartbeat(other.incarnation)
        assert await hands.turn() == []
    assert await other.turn() == ["r"]


async def test_a_set_aside_run_that_is_cancelled_stays_so(hands: Hands) -> None:
    hands.declare("w")
    await hands.register({"w": "v1"})
    await hands.submit("w", "r")
    await hands.turn()
    await hands.end("r", outcome=SetAside(ERROR, "v1"))
    assert await hands.store.cancel(["r"]) == ["parked"]
    await hands.register({"w": "v2"})
    assert await hands.turn() == []


async def test_an_expired_run_taken_up_again_does_not_expire_again(hands: Hands) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=1))
    await hands.register()
    await hands.submit("w", "r1", params={"k": "a"})
    await hands.turn()
    await hands.submit("w", "r2", params={"k": "a"}, expires_in=5)
    await hands.move(5)
    await hands.turn()
    assert await hands.state("r2") == "expired"
    await hands.store.retry(["r2"])
    await hands.move(100)
    assert await hands.end("r1") == ["r2"]


async def test_a_parent_taken_up_again_runs_its_failed_child_anew(hands: Hands) -> None:
    hands.declare("w")
    await hands.register()
    await hands.submit("w", "p")
    await hands.turn()
    await hands.submit("w", "c", parent="p", delay=60)
    await hands.park("p", child(0, "c"))
    await hands.store.cancel(["p"])
    assert await hands.state("c") == "cancelled"
    await hands.store.retry(["p"])
    assert await hands.turn() == ["p"]
    assert hands.executing["p"].log == ()
    await hands.end("p", outcome=Parked((child(0, "c2"),)))


def entry(branch: str, number: int, status: str, order: int) -> Entry:
    return Entry(branch, number, "step", "s", status, ERROR, None, order)  # type: ignore[arg-type]  # a status


def test_an_error_that_the_body_went_on_after_is_kept() -> None:
    log = [entry("", 0, "error", 1), entry("", 1, "done", 2), entry("", 2, "error", 3)]
    assert to_drop(log) == [("", 2)]


def test_a_step_is_dropped_with_the_pauses_between_its_tries() -> None:
    log = [
        entry("", 0, "done", 1),
        entry("-2", 2, "done", 2),
        entry("-2", 3, "done", 3),
        entry("", 1, "error", 4),
    ]
    assert to_drop(log) == [("", 1), ("-2", 2), ("-2", 3)]
    assert to_drop([*log, entry("-3", 1, "waiting", 0)]) == []  # the body went on, and its next step pauses


def test_an_error_of_a_branch_is_dropped_unless_the_code_around_it_went_on() -> None:
    branches = [entry("0", 0, "done", 1), entry("1", 0, "error", 2), entry("0", 1, "done", 3)]
    assert to_drop(branches) == [("1", 0)]
    assert to_drop([*branches, entry("", 5, "done", 4)]) == []
    assert to_drop([*branches, entry("", 5, "error", 4)]) == [("", 5)]
    assert to_drop([entry("", 0, "done", 1), entry("0", 0, "timeout", 2)]) == [("0", 0)]
