"""Replay: the same answers, or the run is set aside with both steps named."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from pyrula.model.outcome import Completed, Outcome, Parked, SetAside
from pyrula.model.step import Entry, call_of, pauses
from pyrula.workflows.body.branches import Branch
from pyrula.workflows.body.redo import Asked, made_anew
from pyrula.workflows.body.replay import Log
from tests.body.stage import Stage, result


async def _nothing() -> None: ...


def _said(outcome: Outcome | None) -> str:
    assert isinstance(outcome, SetAside)
    reason = msgspec.json.decode(outcome.reason)
    assert reason["code"] == "non_deterministic"
    return str(reason["message"])


async def _parked_at_two() -> Stage:
    async def body(ctx: Any) -> None:
        await ctx.step(_nothing, name="reserve")
        await ctx.step(_nothing, name="charge")
        await ctx.sleep(1)

    stage = Stage(body)
    await stage.life()
    return stage


def _deploy(stage: Stage, body: Any) -> None:
    stage.workflow = Stage(body).workflow


async def test_another_step_than_the_log_holds_sets_the_run_aside_and_names_both() -> None:
    stage = await _parked_at_two()

    async def body(ctx: Any) -> None:
        await ctx.step(_nothing, name="reserve")
        await ctx.step(_nothing, name="ship")

    _deploy(stage, body)
    stage.settle("", 2)
    said = _said(await stage.life())
    assert "step 'charge' (number 1)" in said and "step 'ship' (number 1)" in said


async def test_a_body_that_swallows_the_mismatch_is_set_aside_all_the_same() -> None:
    stage = await _parked_at_two()

    async def body(ctx: Any) -> str:
        try:
            await ctx.step(_nothing, name="other")
        except BaseException:
            return "swallowed"
        return "?"

    _deploy(stage, body)
    stage.settle("", 2)
    assert isinstance(await stage.life(), SetAside)


async def test_a_body_that_returns_short_of_its_log_is_set_aside() -> None:
    stage = await _parked_at_two()

    async def body(ctx: Any) -> None:
        await ctx.step(_nothing, name="reserve")

    _deploy(stage, body)
    stage.settle("", 2)
    assert "step 'charge' (number 1), but the body returned without asking for it" in _said(
        await stage.life()
    )


async def test_a_body_that_can_never_ask_for_what_the_log_holds_is_set_aside() -> None:
    import asyncio

    async def old(ctx: Any) -> None:
        await asyncio.gather(ctx.step(_nothing, name="a"), ctx.step(_nothing, name="b"))
        await ctx.sleep(1)

    stage = Stage(old)
    await stage.life()

    async def new(ctx: Any) -> None:
        await asyncio.gather(ctx.wait_for_event("x"))

    _deploy(stage, new)
    del stage.log["0", 0]
    assert "step 'b' (number 0 of branch 1), but the body asks for wait for event 'x'" in _said(
        await stage.life()
    )


async def test_now_random_and_uuid_replay_alike() -> None:
    seen: list[list[Any]] = []

    async def body(ctx: Any) -> None:
        seen.append([ctx.now(), ctx.random(), ctx.uuid4(), ctx.random()])
        await ctx.sleep(1)

    stage = Stage(body)
    await stage.life()
    stage.clock.move(5_000_000)
    stage.settle("", 1)
    assert isinstance(await stage.life(), Completed)
    assert seen[0] == seen[1]
    assert seen[0][1] != seen[0][3]
    assert seen[0][2].version == 4 and seen[0][0].utcoffset() is not None


async def test_branches_draw_different_numbers() -> None:
    import asyncio

    async def body(ctx: Any) -> list[float]:
        async def draw() -> float:
            value: float = ctx.random()
            return value

        return list(await asyncio.gather(draw(), draw()))

    one, other = result(await Stage(body).life())
    assert one != other and 0 <= one < 1


async def test_old_runs_take_the_old_way_past_a_patch_and_new_runs_the_new() -> None:
    async def old(ctx: Any) -> str:
        await ctx.step(_nothing, name="v1")
        await ctx.sleep(1)
        return "old"

    async def new(ctx: Any) -> str:
        if ctx.patched("v2"):
            await ctx.step(_nothing, name="v2")
        else:
            await ctx.step(_nothing, name="v1")
        await ctx.sleep(1)
        return "new" if ctx.patched("end") else "old"

    started_old = Stage(old)
    await started_old.life()
    _deploy(started_old, new)
    started_old.settle("", 1)
    assert result(await started_old.life()) == "new"  # it had not come to the second patch yet
    assert [entry.name for entry in started_old.entries()] == ["v1", "sleep"]
    fresh = Stage(new)
    await fresh.life()
    assert [entry.name for entry in fresh.entries()] == ["v2", "v2", "sleep"]
    fresh.settle("", 2)
    assert result(await fresh.life()) == "new"


async def test_a_patch_may_be_taken_out_of_the_code_once_old_runs_are_gone() -> None:
    async def patched(ctx: Any) -> None:
        if ctx.patched("v2"):
            await ctx.step(_nothing, name="v2")
        await ctx.sleep(1)

    stage = Stage(patched)
    await stage.life()

    async def bare(ctx: Any) -> None:
        await ctx.step(_nothing, name="v2")
        await ctx.sleep(1)

    _deploy(stage, bare)
    stage.settle("", 2)
    assert isinstance(await stage.life(), Completed)


async def test_the_log_of_a_run_is_silent_while_it_replays(caplog: pytest.LogCaptureFixture) -> None:
    async def body(ctx: Any) -> None:
        ctx.log.info("begins")
        await ctx.step(_nothing)
        ctx.log.info("goes on")
        await ctx.sleep(1)
        ctx.log.info("ends")

    stage = Stage(body)
    with caplog.at_level(logging.INFO, "pyrula.run"):
        await stage.life()
        stage.settle("", 1)
        await stage.life()
    assert [record.message for record in caplog.records] == ["begins", "goes on", "ends"]
    assert caplog.records[0].__dict__["run_id"] == "run-1"


async def test_what_was_settled_before_but_heard_of_later_is_told_first() -> None:
    import asyncio

    gate = asyncio.Event()

    async def work() -> str:
        await gate.wait()
        return "worked"

    async def body(ctx: Any) -> list[Any]:
        won: list[Any] = []

        async def note(awaitable: Any) -> None:
            won.append(await awaitable)

        await asyncio.gather(note(ctx.step(work)), note(ctx.wait_for_event("go")))
        await ctx.sleep(1)
        return won

    stage = Stage(body)

    def quietly() -> None:
        body_, stage.body = stage.body, None
        stage.settle("1", 0, "event")  # the store knows, the worker has not heard
        stage.body = body_
        gate.set()

    assert isinstance(await stage.life(quietly), Parked)
    stage.settle("", 0)
    assert result(await stage.life()) == ["event", "worked"]


def test_a_log_is_told_in_the_order_in_which_it_was_settled() -> None:
    log = Log(
        [Entry("1", 0, "step", "b", "done", None, None, 1), Entry("0", 0, "step", "a", "done", None, None, 3)]
    )
    assert log.replaying
    log.add([Entry("2", 0, "event", "c", "done", b"1", None, 2)])
    told = []
    while (entry := log.next()) is not None:
        told.append(entry.name)
        log.advance()
    assert told == ["b", "c", "a"]
    assert not log.replaying


def test_what_is_written_twice_keeps_its_first_answer() -> None:
    log = Log([Entry("", 0, "step", "a", "done", b"1", None, 1)])
    log.add([Entry("", 0, "step", "a", "done", b"2", None, 2)])
    entry = log.get("", 0)
    assert entry is not None and entry.value == b"1"


def test_pauses_of_a_step_have_a_branch_that_nothing_else_has() -> None:
    assert (pauses(("", 3)), pauses(("0.2", 0))) == ("-4", "0.2.-1")
    assert (call_of("-4", 1), call_of("0.2.-1", 2)) == (("", 3), ("0.2", 0))
    assert (call_of("0.2", 5), call_of("", 1)) == (("0.2", 5), ("", 1))


def test_a_retry_keeps_what_other_branches_did() -> None:
    main, left, right, late = (
        Branch("", None, 0),
        Branch("0", None, 0),
        Branch("1", None, 0),
        Branch("2", None, 2),
    )
    asked = [Asked(left, 0, 0), Asked(right, 0, 0), Asked(right, 1, 1), Asked(main, 0, 2), Asked(late, 0, 2)]
    told = {("0", 0): 2, ("1", 0): 1}
    assert made_anew({("0", 0)}, asked, told) == [("", 0), ("0", 0), ("2", 0)]
