from datetime import timedelta
from typing import Any

import msgspec
import pytest

from pyrula.clock import SECOND
from pyrula.model.outcome import Postponed, Retry, SetAside
from pyrula.policies.limit import Limit
from pyrula.policies.rate import Rate
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import LEASE, Hands, child, event, sleep


async def why(hands: Hands, run_id: str) -> dict[str, Any]:
    answer = await hands.store.why(run_id)
    assert answer is not None and answer["run_id"] == run_id and answer["text"]
    msgspec.json.encode(answer)  # the page and the command line show it as it is
    return answer


async def kinds(hands: Hands, run_id: str) -> list[str]:
    return [reason["kind"] for reason in (await why(hands, run_id))["reasons"]]


def seconds(hands: Hands, answer: dict[str, Any]) -> float | None:
    at = answer["earliest_start"]
    return None if at is None else round((at - hands.clock.today).total_seconds(), 6)


async def test_the_last_of_a_hundred_is_told_when_its_token_comes(hands: Hands) -> None:
    hands.declare("w", rate_limit=Rate(key="k", per_second=10, burst=10, name="r"))
    await hands.register()
    await hands.submit_many("w", [f"a{i}" for i in range(100)], k="a")
    await hands.submit_many("w", [f"b{i}" for i in range(3)], k="b")
    answer = await why(hands, "a99")
    assert (seconds(hands, answer), answer["place"], answer["ahead"]) == (9.0, 100, 99)
    (reason,) = answer["reasons"]
    assert (reason["kind"], reason["gate"], reason["key"], reason["tokens"]) == ("rate", "r", "a", 10)
    await hands.turn()
    answer = await why(hands, "a99")
    assert (seconds(hands, answer), answer["place"]) == (9.0, 90)
    assert "no token left" in answer["text"]
    await hands.run_until(9)
    assert hands.starts("a99") == [9.0]
    assert (await why(hands, "a99"))["text"] == "It is over: completed."


@pytest.mark.parametrize(("rate", "burst"), [(7.3, 1), (0.1, 3), (1000, 5), (1 / 3, 2)])
async def test_the_earliest_start_is_the_start(hands: Hands, rate: float, burst: int) -> None:
    hands.declare("w", rate_limit=Rate(key="k", per_second=rate, burst=burst))
    await hands.register()
    ids = [f"a{i}" for i in range(12)]
    await hands.submit_many("w", ids, k="a")
    told = [seconds(hands, await why(hands, run_id)) for run_id in ids]
    await hands.run_until(12 / rate)
    assert [hands.starts(run_id)[0] for run_id in ids] == told


async def test_a_full_gate_names_who_is_inside_and_no_time(hands: Hands) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=2, name="g"))
    await hands.register()
    await hands.submit_many("w", [f"a{i}" for i in range(5)], k="a")
    await hands.submit_many("w", ["b0"], k="b")
    await hands.turn()
    answer = await why(hands, "a4")
    (reason,) = answer["reasons"]
    assert reason == {
        "kind": "limit", "gate": "g", "key": "a", "in_use": 2, "max": 2, "holders": ["a0", "a1"],
    }  # fmt: skip
    assert (answer["earliest_start"], answer["place"]) == (None, 3)
    assert "2 of 2 in use, by a0, a1" in answer["text"]
    assert (await why(hands, "a0"))["reasons"] == []
    assert "worker w1" in (await why(hands, "a0"))["text"]


async def test_one_behind_a_thousand_is_told_so(hands: Hands) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=1))
    await hands.register()
    await hands.submit_many("w", [f"a{i}" for i in range(1500)], k="a")
    answer = await why(hands, "a1499")
    assert (answer["place"], answer["ahead"]) == ("1000+", 1000)


async def test_every_gate_that_refuses_is_named(hands: Hands) -> None:
    limits = {
        "concurrency": Limit(key="k", max=1, name="g"),
        "rate_limit": Rate(key="k", per_second=0.1, name="r"),
    }
    hands.declare("w", **limits)
    await hands.register()
    await hands.submit_many("w", ["a0", "a1"], k="a")
    await hands.turn()
    await hands.store.pause("g", "a", 60 * SECOND)
    assert await kinds(hands, "a1") == ["pause", "limit", "rate"]
    await hands.end("a0")
    answer = await why(hands, "a1")
    assert ([reason["kind"] for reason in answer["reasons"]], seconds(hands, answer)) == (
        ["pause", "rate"],
        60.0,
    )
    await hands.store.pause("g", "a", None)
    answer = await why(hands, "a1")
    assert answer["earliest_start"] is None
    assert "until further notice" in answer["text"]


async def test_an_operators_pause_and_a_retry_after_are_told_apart(hands: Hands) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=9, name="g"))
    await hands.register()
    await hands.submit_many("w", ["a0", "a1"], k="a")
    await hands.turn(wanted=1)
    await hands.end("a0", outcome=Postponed(60 * SECOND))
    (closed,) = (await why(hands, "a1"))["reasons"]
    assert (closed["kind"], closed["by"], closed["run_id"]) == ("pause", "run", "a0")
    assert "by run a0" in (await why(hands, "a1"))["text"]
    await hands.store.pause("g", None, 10 * SECOND)
    reasons = (await why(hands, "a1"))["reasons"]
    assert [(each["by"], each["every_key"], each["run_id"]) for each in reasons] == [
        ("operator", True, None),
        ("run", False, "a0"),
    ]
    assert [seconds(hands, {"earliest_start": each["until"]}) for each in reasons] == [10.0, 60.0]
    for gate in (*await hands.store.gates("g"), await hands.store.gate("g", "a")):
        assert gate is not None
        assert [(each.by, each.every_key, each.run_id) for each in gate.pauses] == [
            ("operator", True, None),
            ("run", False, "a0"),
        ]
        assert gate.starts == 1
    await hands.store.resume("g", None)
    assert [each["by"] for each in (await why(hands, "a1"))["reasons"]] == ["run"]
    await hands.store.resume("g", "a")
    assert await kinds(hands, "a0") == []


async def test_a_gate_stays_closed_by_the_run_that_asked_for_the_longest_time(hands: Hands) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=9, name="g"))
    await hands.register()
    await hands.submit_many("w", ["a0", "a1", "a2", "a3"], k="a")
    await hands.turn(wanted=3)
    for run_id, delay in (("a0", 5), ("a1", 9), ("a2", 7)):
        await hands.end(run_id, outcome=Postponed(delay * SECOND))
    (closed,) = (await why(hands, "a3"))["reasons"]
    assert (closed["run_id"], seconds(hands, {"earliest_start": closed["until"]})) == ("a1", 9.0)


async def test_an_override_is_what_counts(hands: Hands) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=5, name="g"))
    await hands.register()
    await hands.submit_many("w", ["a0", "a1"], k="a")
    await hands.store.override("g", None, 1, None)
    await hands.turn()
    (reason,) = (await why(hands, "a1"))["reasons"]
    assert (reason["in_use"], reason["max"]) == (1, 1)


async def test_nobody_to_run_it(hands: Hands) -> None:
    hands.declare("w")
    await hands.submit("w", "r")
    assert await kinds(hands, "r") == ["no_worker"]
    await hands.register()
    answer = await why(hands, "r")
    assert (answer["reasons"], seconds(hands, answer)) == ([], 0.0)
    hands.clock.move(hands.clock.monotonic() + LEASE)
    assert await kinds(hands, "r") == ["no_worker"]
    await hands.register()


async def test_every_worker_held_back_and_by_what(hands: Hands) -> None:
    hands.declare("w")
    held = {"held_back": [{"level": "worker", "limitable": "mem", "text": "mem 95 of 90"}]}
    await hands.register(facts=msgspec.json.encode(held))
    await hands.submit("w", "r")
    (reason,) = (await why(hands, "r"))["reasons"]
    assert reason["kind"] == "workers_held_back"
    assert "w1 by mem 95 of 90" in (await why(hands, "r"))["text"]
    other = Hands(hands.store, hands.clock, "w2")
    other.declared = hands.declared
    await other.register()
    assert await kinds(hands, "r") == []


async def test_every_worker_executes_as_many_runs_as_it_may(hands: Hands) -> None:
    hands.declare("w")
    await hands.register(facts=msgspec.json.encode({"max_concurrent_runs": 2}))
    await hands.submit_many("w", ["a", "b", "c"])
    assert await kinds(hands, "c") == []
    started = await hands.turn(wanted=2)
    (last,) = {"a", "b", "c"} - set(started)  # of several shards, any of them
    answer = await why(hands, last)
    (reason,) = answer["reasons"]
    assert (reason["kind"], answer["earliest_start"]) == ("workers_held_back", None)
    assert "w1 by max_concurrent_runs: it executes 2 of 2" in answer["text"]
    await hands.end(started[0], wanted=0)
    assert await kinds(hands, last) == []


async def test_a_run_that_is_not_due_says_when(hands: Hands, clock: VirtualClock) -> None:
    hands.declare("w")
    await hands.register()
    await hands.submit("w", "later", delay=60)
    await hands.submit("w", "at", run_at=clock.wall() + 30 * SECOND)
    for run_id, after in (("later", 60.0), ("at", 30.0)):
        answer = await why(hands, run_id)
        (reason,) = answer["reasons"]
        assert (reason["kind"], seconds(hands, answer)) == ("not_due", after)
        assert reason["until"] == clock.today + timedelta(seconds=after)


async def test_what_a_parked_run_waits_for(hands: Hands) -> None:
    hands.declare("w")
    await hands.register({"w": "v1"})
    await hands.submit_many("w", ["p", "retries", "aside"])
    await hands.turn()
    await hands.submit("w", "c", parent="p", delay=100)
    now = await hands.store.now()
    waits = (sleep(0, now + 5 * SECOND, branch="0"), event(0, "go", branch="1"), child(0, "c", branch="2"))
    await hands.park("p", *waits)
    await hands.end("retries", outcome=Retry(b'{"type":"E","message":"no"}', 9 * SECOND))
    await hands.end("aside", outcome=SetAside(b'{"type":"E","message":"step 3 was a, is b"}', "v1"))
    answer = await why(hands, "p")
    assert [reason["what"] for reason in answer["reasons"]] == ["sleep", "event", "child"]
    assert (answer["reasons"][2]["run_id"], answer["reasons"][2]["state"]) == ("c", "queued")
    assert "'go'" in answer["text"]
    answer = await why(hands, "retries")
    assert (answer["state"], seconds(hands, answer)) == ("parked", 9.0)
    assert "backs off" in answer["text"]
    assert await kinds(hands, "aside") == ["set_aside"]
    assert "step 3 was a, is b" in (await why(hands, "aside"))["text"]
    assert await hands.store.why("nobody") is None


async def test_a_resumed_run_waits_for_no_token(hands: Hands) -> None:
    limits = {"concurrency": Limit(key="k", max=1), "rate_limit": Rate(key="k", per_second=0.001, burst=2)}
    hands.declare("w", **limits)
    await hands.register()
    await hands.submit_many("w", ["a0", "a1"], k="a")
    await hands.turn()
    assert await hands.park("a0", event(0, "go")) == ["a1"]
    await hands.store.send_event("a0", "go", b"1")
    assert await kinds(hands, "a0") == ["limit"]


async def test_a_child_that_shares_a_slot_says_so(hands: Hands) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=1, name="g", hold="run"))
    await hands.register()
    await hands.submit("w", "p", params={"k": "a"})
    await hands.turn()
    await hands.submit("w", "c", params={"k": "a"}, parent="p")
    (reason,) = (await why(hands, "c"))["reasons"]
    assert (reason["gate"], reason["in_use"], reason["max"], reason["holders"]) == ("slot", 1, 1, ["p"])


async def test_a_run_that_is_being_cancelled_says_so(hands: Hands) -> None:
    hands.declare("w")
    await hands.register()
    await hands.submit("w", "a")
    await hands.turn()
    await hands.store.cancel(["a"])
    answer = await why(hands, "a")
    assert (answer["state"], [reason["kind"] for reason in answer["reasons"]]) == (
        "executing",
        ["cancelling"],
    )
    assert "told to cancel it" in answer["text"]
