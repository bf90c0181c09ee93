from typing import Any

import msgspec
import pytest

from pyrula.clock import SECOND
from pyrula.errors import ConfigurationError, GateNotFound
from pyrula.model.outcome import Postponed
from pyrula.policies.limit import Limit
from pyrula.policies.rate import Rate
from pyrula.policies.stamp import Stamped
from tests.conformance.hands import Hands


async def queue(hands: Hands, n: int, key: str = "a", start: int = 0) -> list[str]:
    ids = [f"{key}{i}" for i in range(start, start + n)]
    await hands.submit_many("w", ids, k=key)
    return ids


def restamper(hands: Hands, name: str = "w") -> Any:
    def stamp(params: bytes, priority: int) -> Stamped:
        return hands.stamped(name, msgspec.json.decode(params), priority)

    return stamp


async def limited(hands: Hands, most: int) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=most, name="g"))
    await hands.register()


async def test_raising_a_limit_starts_more_at_once_for_queued_runs_too(hands: Hands) -> None:
    await limited(hands, 1)
    await queue(hands, 6)
    await queue(hands, 3, "b")
    assert await hands.turn() == ["a0", "b0"]
    await hands.store.override("g", "a", 3, None)
    assert await hands.turn() == ["a1", "a2"]
    await hands.store.override("g", None, 2, None)
    assert await hands.turn() == ["b1"]  # a's own override goes before that of all keys


async def test_lowering_a_limit_starts_nothing_until_it_is_met_again(hands: Hands) -> None:
    await limited(hands, 5)
    await queue(hands, 9)
    assert len(await hands.turn()) == 5
    await hands.store.override("g", None, 2, None)
    assert [await hands.end(f"a{i}") for i in range(3)] == [[], [], []]
    assert await hands.end("a3") == ["a5"]


async def test_an_override_lapses_by_itself_and_can_be_taken_back(hands: Hands) -> None:
    await limited(hands, 3)
    await hands.store.override("g", None, 1, 10 * SECOND)
    await queue(hands, 5)
    await queue(hands, 2, "b")
    assert await hands.turn() == ["a0", "b0"]
    assert hands.last is not None and hands.last.next_in is not None and hands.last.next_in <= 10 * SECOND
    await hands.move(10)
    assert set(await hands.turn()) == {"a1", "a2", "b1"}
    await hands.store.override("g", "a", 4, None)
    assert await hands.turn() == ["a3"]
    await hands.store.override("g", "a", None, None)
    assert await hands.end("a0") == []


async def test_a_rate_override_counts_from_the_debt_as_it_is(hands: Hands) -> None:
    hands.declare("w", rate_limit=Rate(key="k", per_second=0.01, burst=1, name="r"))
    await hands.register()
    await queue(hands, 2)
    await queue(hands, 2, "b")
    assert await hands.turn() == ["a0", "b0"]
    await hands.move(5)
    await hands.store.override("r", "a", (1, 1, 1), None)
    await hands.run_until(100)
    assert (hands.starts("a1"), hands.starts("b1")) == ([5.0], [100.0])


async def test_an_override_of_the_burst_before_any_worker_is_there(hands: Hands) -> None:
    hands.declare("w", rate_limit=Rate(key="k", per_second=1, burst=20, name="r"))
    await queue(hands, 15)
    await hands.store.override("r", None, (1, 1, 10), None)
    await hands.register()
    await hands.run_until(6)
    assert [at for at, _ in hands.started] == [0.0] * 10 + [1.0, 2.0, 3.0, 4.0, 5.0]


async def test_a_pause_stops_starts_until_it_is_over_or_taken_back(hands: Hands) -> None:
    await limited(hands, 10)
    await queue(hands, 2)
    await hands.store.pause("g", None, 10 * SECOND)
    await queue(hands, 2, "b")
    assert await hands.turn() == []
    await hands.store.resume("g", "b")
    assert await hands.turn() == ["b0", "b1"]
    await hands.move(10)
    assert await hands.turn() == ["a0", "a1"]
    await hands.store.pause("g", "a", None)
    await queue(hands, 1, "a", 2)
    await queue(hands, 1, "b", 2)
    assert await hands.turn() == ["b2"]
    await hands.store.resume("g", None)  # that of the whole gate, which there is none of
    assert await hands.turn() == []
    await hands.move(10_000)
    assert await hands.turn() == []
    await hands.store.resume("g", "a")
    assert await hands.turn() == ["a2"]


async def test_a_hundred_behind_a_pause_keep_to_their_rate_when_it_ends(hands: Hands) -> None:
    hands.declare("w", rate_limit=Rate(key="k", per_second=40, burst=40, name="r"))
    await hands.register()
    await queue(hands, 1, "z")
    await hands.turn()
    await hands.store.pause("r", None, None)
    await queue(hands, 100)
    assert await hands.turn() == []
    await hands.store.resume("r", None)
    await hands.run_until(2)
    starts = [at for at, run_id in hands.started if run_id.startswith("a")]
    assert (starts.count(0.0), sum(at <= 1 for at in starts), max(starts)) == (40, 80, 1.5)


async def test_resume_opens_what_a_retry_after_closed(hands: Hands) -> None:
    hands.declare("w", rate_limit=Rate(key="k", per_second=100, name="r"))
    await hands.register()
    await queue(hands, 2)
    await queue(hands, 1, "b")
    await hands.turn(wanted=1)
    await hands.end("a0", outcome=Postponed(600 * SECOND))
    assert [run_id for _, run_id in hands.started] == ["a0", "b0"]
    (gate,) = await hands.store.gates("r", "a")
    assert gate.paused_until is not None
    await hands.store.resume("r", "a")
    assert await hands.turn() == ["a0", "a1"]


async def test_a_gate_that_nobody_knows_is_an_error_and_so_is_the_wrong_kind(hands: Hands) -> None:
    await limited(hands, 1)
    with pytest.raises(GateNotFound, match=r"'nope'.*known: g"):
        await hands.store.override("nope", None, 1, None)
    with pytest.raises(GateNotFound):
        await hands.store.pause("nope", None, None)
    with pytest.raises(ConfigurationError, match="override_limit"):
        await hands.store.override("g", None, (1, 1, 1), None)


async def test_a_new_declaration_changes_queued_runs_only_by_restamp(hands: Hands) -> None:
    await limited(hands, 1)
    await queue(hands, 6)
    await queue(hands, 2, "b")
    await hands.turn()
    await limited(hands, 3)
    assert await hands.turn() == []
    assert await hands.store.restamp("w", restamper(hands)) == 6
    assert sorted(await hands.turn()) == ["a1", "a2", "b1"]
    assert await hands.store.restamp("w", restamper(hands)) == 0


async def test_restamp_gives_a_queued_run_the_rate_of_today(hands: Hands) -> None:
    hands.declare("w", rate_limit=Rate(key="k", per_second=0.01, burst=1, name="r"))
    await hands.register()
    await queue(hands, 2)
    await hands.turn()
    await hands.move(5)
    hands.declare("w", rate_limit=Rate(key="k", per_second=1, burst=1, name="r"))
    await hands.register()
    await hands.store.restamp("w", restamper(hands))
    await hands.run_until(1)
    assert hands.starts("a1") == [5.0]


async def test_restamp_takes_runs_out_of_a_gate_that_is_declared_no_more(hands: Hands) -> None:
    await limited(hands, 1)
    await queue(hands, 50)
    await hands.submit("w", "late", params={"k": "a"}, delay=10)
    assert await hands.turn() == ["a0"]
    hands.declare("w")
    await hands.register()
    await hands.submit("w", "new", params={"k": "a"})
    assert await hands.turn() == ["new"]
    assert await hands.end("a0") == ["a1"]
    assert await hands.store.restamp("w", restamper(hands)) == 49
    assert len(await hands.turn()) == 48
    await hands.move(10)
    assert await hands.turn() == ["late"]


async def test_restamp_puts_runs_behind_a_new_gate_and_another_key(hands: Hands) -> None:
    hands.declare("w")
    await hands.register()
    await hands.submit("w", "x0", params={"k": "a", "j": "x"})
    await hands.submit("w", "x1", params={"k": "b", "j": "x"})
    await hands.submit("w", "y0", params={"k": "a", "j": "y"})
    hands.declare("w", concurrency=Limit(key="j", max=1, name="g"))
    await hands.register()
    assert await hands.store.restamp("w", restamper(hands)) == 3
    assert set(await hands.turn()) == {"x0", "y0"}
    assert await hands.end("x0") == ["x1"]
    run = await hands.store.get("x1")
    assert run is not None and run.keys == {"g": "x"}


async def test_restamp_leaves_what_executes_and_what_holds_a_slot(hands: Hands) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=1, name="g", hold="run"))
    await hands.register()
    await queue(hands, 2)
    await queue(hands, 1, "b")
    await hands.turn()
    await hands.end("a0", outcome=Postponed(5 * SECOND))
    hands.declare("w", concurrency=Limit(key="k", max=2, name="g", hold="run"))
    assert await hands.store.restamp("w", restamper(hands)) == 1
    assert await hands.turn() == []  # the gate is closed for this key, as the run asked
    await hands.move(5)
    assert await hands.turn() == ["a0", "a1"]


async def test_a_deploy_that_lowers_a_limit_keeps_the_order_of_submission(hands: Hands) -> None:
    await limited(hands, 5)
    await queue(hands, 9)
    await hands.turn()
    await limited(hands, 2)
    await queue(hands, 1, "a", 9)
    starts = []
    for i in range(9):
        starts += await hands.end(f"a{i}") if f"a{i}" in hands.executing else []
    assert starts == ["a5", "a6", "a7", "a8", "a9"]
