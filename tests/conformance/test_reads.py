from datetime import timedelta
from typing import Any

import pytest

from pyrula.clock import SECOND
from pyrula.errors import InvalidPayload
from pyrula.model.outcome import Completed, Postponed
from pyrula.policies.limit import Limit
from pyrula.policies.rate import Rate
from pyrula.store.protocol import Gate
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import Hands, event


async def gate(hands: Hands, name: str, key: str = "a") -> Gate:
    (found,) = await hands.store.gates(name, key)
    return found


async def test_a_run_as_users_see_it(hands: Hands, clock: VirtualClock) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=1, name="g"), priority=2)
    await hands.register()
    begin = clock.today
    await hands.submit("w", "r", params={"k": "a", "n": 1})
    await hands.submit("w", "b", params={"k": "b"})
    await hands.move(2)
    await hands.turn()
    run = await hands.store.get("r")
    assert run is not None
    assert (run.state, run.params, run.keys, run.worker_id) == (
        "executing",
        {"k": "a", "n": 1},
        {"g": "a"},
        "w1",
    )
    assert (run.priority, run.attempt, run.submitted_at) == (2, 1, begin)
    assert run.started_at == begin + timedelta(seconds=2)
    await hands.move(3)
    assert await hands.store.results(["r", "b"]) == [("open", None)] * 2
    await hands.end("r", outcome=Completed(b'{"x":1}'))
    clock.step_wall(3600)
    run = await hands.store.get("r")
    assert run is not None
    assert (run.state, run.result, run.worker_id) == ("completed", {"x": 1}, "w1")
    assert run.finished_at == begin + timedelta(seconds=5)
    assert await hands.store.results(["r", "b", "nobody"]) == [
        ("completed", b'{"x":1}'),
        ("open", None),
        None,
    ]
    assert await hands.store.get("nobody") is None


async def test_runs_are_listed_newest_first_page_by_page(hands: Hands) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=1))
    hands.declare("v")
    await hands.register()
    for n in range(4):
        await hands.submit("w", f"a{n}", params={"k": "a"})
        await hands.submit("w", f"b{n}", params={"k": "b"})
        await hands.submit("v", f"v{n}")
        await hands.move(0.001)
    await hands.turn()
    await hands.fail("a0")
    await hands.park("v1", event(0, "go"))

    async def listed(**by: Any) -> list[str]:
        found, cursor = [], None
        while True:
            asked = (by.get("workflow"), by.get("state"), by.get("key"), 3, cursor)
            page, cursor = await hands.store.runs(*asked)
            assert len(page) <= 3
            found += [run.run_id for run in page]
            if cursor is None:
                return found

    assert len(await listed()) == 12
    assert await listed(workflow="v") == ["v3", "v2", "v1", "v0"]
    assert await listed(key="a") == ["a3", "a2", "a1", "a0"]
    assert await listed(workflow="w", state="executing") == ["a1", "b0"]
    assert await listed(state="failed") == ["a0"]
    assert await listed(state="parked") == ["v1"]
    assert await listed(workflow="w", state="queued", key="b") == ["b3", "b2", "b1"]
    assert await listed(workflow="none") == []


async def test_the_few_runs_of_a_key_are_found_among_thousands_of_others(hands: Hands) -> None:
    """The newest 2,048 have none, then some are close together, then one is the oldest of all."""
    hands.declare("w", concurrency=Limit(key="k", max=1))
    rare = {0, 3000, 3001, 3002, 4100}
    many = [
        hands.submission("w", f"r{n}", params={"k": "rare" if n in rare else f"k{n}"}) for n in range(6500)
    ]
    await hands.store.submit(many)
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page, cursor = await hands.store.runs(None, None, "rare", 2, cursor)
        found += [run.run_id for run in page]
        pages += 1
    assert found == ["r4100", "r3002", "r3001", "r3000", "r0"]
    assert await hands.store.open_runs("w", "rare", 3) == ["r4100", "r3002", "r3001"]
    assert await hands.store.open_runs("v", "rare", 3) == []


@pytest.mark.parametrize("cursor", ["abc", "٣", "1_0", "-1", " 1", "9" * 19, "²"])
async def test_a_cursor_that_no_page_ends_with_is_refused(hands: Hands, cursor: str) -> None:
    with pytest.raises(InvalidPayload, match="take it from the page before"):
        await hands.store.runs(None, None, None, 2, cursor)


async def test_what_a_gate_counts(hands: Hands, clock: VirtualClock) -> None:
    limits = {
        "concurrency": Limit(key="k", max=2, name="g"),
        "rate_limit": Rate(key="k", per_second=2, burst=3, name="r"),
    }
    hands.declare("w", **limits)
    await hands.submit_many("w", [f"a{i}" for i in range(5)], k="a")
    await hands.submit_many("w", ["b0"], k="b")
    before = await gate(hands, "g")
    assert (before.in_use, before.queued, before.max) == (0, 5, 2)  # though no turn has looked yet
    await hands.register()
    await hands.turn()
    limit, rate = await gate(hands, "g"), await gate(hands, "r")
    assert (limit.in_use, limit.max, limit.queued, limit.holders) == (2, 2, 3, ("a0", "a1"))
    assert (limit.next_start_at, limit.tokens) == (None, None)
    assert (rate.tokens, rate.burst, rate.per_second, rate.queued) == (1, 3, 2.0, 3)
    assert rate.next_start_at == clock.today
    await hands.end("a0")
    rate = await gate(hands, "r")
    assert (rate.tokens, rate.next_start_at) == (0, clock.today + timedelta(seconds=0.5))
    await hands.end("a1", outcome=Postponed(60 * SECOND))
    rate = await gate(hands, "r")
    assert rate.paused_until == rate.next_start_at == clock.today + timedelta(seconds=60)
    assert {(one.name, one.key) for one in await hands.store.gates(None)} == {
        ("g", "a"), ("g", "b"), ("r", "a"), ("r", "b"),
    }  # fmt: skip


async def test_an_override_shows_on_its_gate(hands: Hands) -> None:
    hands.declare("w", rate_limit=Rate(key="k", per_second=10, burst=2**33, name="r"))
    await hands.register()
    await hands.submit_many("w", ["a0"], k="a")
    await hands.submit_many("w", ["b0"], k="b")
    await hands.turn()
    rate = await gate(hands, "r")
    assert (rate.burst, rate.tokens, rate.override) == (2**33, 2**33 - 1, None)
    await hands.store.override("r", None, (1, 2, 4), None)
    await hands.store.pause("r", "b", None)
    rate = await gate(hands, "r")
    assert (rate.burst, rate.per_second, rate.override is not None) == (4, 0.5, True)
    paused = await gate(hands, "r", "b")
    assert paused.next_start_at is None and paused.override is not None
    assert set(paused.override) == {"rate", "pause"}


async def test_private_slots_are_nobody_elses_gate(hands: Hands) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=1, name="g", hold="run"))
    await hands.register()
    await hands.submit_many("w", ["a0"], k="a")
    await hands.turn()
    (only,) = await hands.store.gates(None)
    assert (only.name, only.in_use, only.holders) == ("g", 1, ("a0",))


async def test_workers_show_what_they_serve_and_whether_they_live(hands: Hands) -> None:
    hands.declare("w")
    await hands.register(facts=b'{"host":"h"}')
    await hands.submit("w", "r")
    await hands.turn()
    (worker,) = await hands.store.workers()
    assert (worker["worker_id"], worker["serves"], worker["executing"]) == ("w1", ["w"], 1)
    assert (worker["alive"], worker["facts"]) == (True, {"host": "h"})
    await hands.end("r")
    await hands.store.leave("w1")
    assert await hands.store.workers() == []
