"""Waits: a run parks when every branch waits, and goes on with what it waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from pyrula.errors import RunCancelled, RunExpired, RunFailed, SlotDeadlock
from pyrula.model.outcome import Completed, Failed, Parked, Released, Retry
from pyrula.model.step import Entry
from pyrula.policies.retry import RetryStamp
from pyrula.testing import Environment
from pyrula.workflows import Registry, workflow
from tests.body.stage import Stage, result


async def test_a_sleep_parks_the_run_until_its_due_time() -> None:
    async def body(ctx: Any) -> str:
        await ctx.sleep(2.5)
        return "awake"

    stage = Stage(body)
    assert await stage.life() == Parked(
        (Entry("", 0, "sleep", "sleep", "waiting", None, stage.now() + 2_500_000),)
    )
    stage.settle("", 0)
    assert result(await stage.life()) == "awake"
    assert stage.written == 0


async def test_an_event_arrives_with_its_payload_or_times_out() -> None:
    async def body(ctx: Any) -> list[Any]:
        got = [await ctx.wait_for_event("paid")]
        try:
            await ctx.wait_for_event("shipped", timeout=60)
        except TimeoutError as error:
            got.append(str(error))
        return got

    stage = Stage(body)
    first = await stage.life()
    assert isinstance(first, Parked) and first.entries[0].due is None
    stage.settle("", 0, {"cents": 5})
    await stage.life()
    stage.settle("", 1, status="timeout")
    assert result(await stage.life()) == [{"cents": 5}, "waited for event 'shipped' until it timed out"]


async def test_a_child_is_submitted_once_and_its_result_comes_back() -> None:
    async def body(ctx: Any) -> list[Any]:
        started = await ctx.start_child("mail", {"to": "a"})
        return [started, await ctx.run_child("invoice", {"n": 1})]

    stage = Stage(body)
    parked = await stage.life()
    assert isinstance(parked, Parked)
    assert parked.entries[0].value == b"run-1/:1"
    stage.settle("", 1, 42)
    assert result(await stage.life()) == ["run-1/:0", 42]
    assert stage.children == [("run-1/:0", "mail", {"to": "a"}), ("run-1/:1", "invoice", {"n": 1})]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("run_failed", RunFailed),
        ("run_cancelled", RunCancelled),
        ("run_expired", RunExpired),
        ("slot_deadlock", SlotDeadlock),
    ],
)
async def test_a_parent_meets_what_its_child_ended_with(code: str, kind: type[Exception]) -> None:
    async def body(ctx: Any) -> str:
        try:
            await ctx.run_child("invoice")
        except kind as error:
            return f"{type(error).__name__}: {error}"
        return "?"

    stage = Stage(body)
    await stage.life()
    stage.settle(
        "", 0, {"type": "X", "message": "child ended", "code": code, "run_id": "c", "error": None}, "error"
    )
    assert result(await stage.life()) == f"{kind.__name__}: child ended"


async def test_a_retried_parent_submits_its_failed_child_again_under_another_id() -> None:
    async def body(ctx: Any) -> Any:
        return await ctx.run_child("invoice")

    stage = Stage(body, retry=RetryStamp(max_attempts=2))
    await stage.life()
    stage.settle("", 0, {"message": "no", "code": "run_failed", "run_id": "run-1/:0", "error": None}, "error")
    outcome = await stage.life()
    assert isinstance(outcome, Retry) and outcome.drop == (("", 0),)
    await stage.life()
    assert [child[0] for child in stage.children] == ["run-1/:0", "run-1/:0@2"]


async def test_a_line_of_runs_of_which_each_submits_the_next_one_has_no_end() -> None:
    registry = Registry()

    @workflow(registry=registry)
    async def link(ctx: Any, left: int) -> list[str]:
        if not left:
            return []
        first = await ctx.run_child("link", {"left": 0}, delay=1)
        assert first == []
        return [await ctx.start_child("link", {"left": left - 1})]

    async with Environment(workflows=registry) as env:
        run_id = await env.client.submit("link", {"left": 300}, run_id="ä" * 250)  # as long as an id may be
        seen = []
        while run_id:
            seen.append(run_id)
            run_id = next(iter(await env.until(env.client.result(run_id))), "")
        assert len(seen) == 301 == len(set(seen))
        assert {len(child.encode()) <= 500 and child.startswith("ä" * 64) for child in seen} == {True}
        ended = await env.client.runs(limit=1000)
        assert len(ended) == 601 and {run.state for run in ended} == {"completed"}


async def test_a_run_does_not_park_while_a_branch_works_and_its_waits_are_stored() -> None:
    gate = asyncio.Event()

    async def work() -> str:
        await gate.wait()
        return "worked"

    async def body(ctx: Any) -> list[Any]:
        return list(await asyncio.gather(ctx.step(work), ctx.wait_for_event("go")))

    stage = Stage(body)
    before: list[Any] = []

    def arrive() -> None:
        before.extend(stage.calls())
        stage.settle("1", 0, "gone")

    outcome = await stage.life(arrive, gate.set)
    assert before == [("1", 0, "event", "waiting")]
    assert result(outcome) == ["worked", "gone"]


async def test_a_run_parks_once_its_last_working_branch_waits_too() -> None:
    async def body(ctx: Any) -> list[Any]:
        async def both() -> Any:
            await ctx.step(lambda: 1, name="one")
            return await ctx.wait_for_event("b")

        return list(await asyncio.gather(both(), ctx.wait_for_event("a")))

    stage = Stage(body)
    assert isinstance(await stage.life(), Parked)
    assert stage.calls() == [
        ("0", 0, "step", "done"),
        ("0", 1, "event", "waiting"),
        ("1", 0, "event", "waiting"),
    ]
    stage.settle("1", 0, "A")
    assert isinstance(await stage.life(), Parked)
    stage.settle("0", 1, "B")
    assert result(await stage.life()) == ["B", "A"]


async def test_news_that_comes_while_a_run_parks_hands_it_back_instead() -> None:
    held = asyncio.Event()

    async def body(ctx: Any) -> Any:
        try:
            return await ctx.wait_for_event("go")
        finally:
            await held.wait()

    stage = Stage(body)
    outcome = await stage.life(lambda: stage.body.news() if stage.body else None, held.set)
    assert isinstance(outcome, Released)


async def test_a_timeout_of_asyncio_keeps_the_run_in_its_place_until_it_fires() -> None:
    async def body(ctx: Any) -> str:
        try:
            async with asyncio.timeout(0.02):
                await ctx.wait_for_event("never")
        except TimeoutError:
            return "timed out"
        return "?"

    assert result(await Stage(body).life()) == "timed out"


async def test_an_event_that_only_an_abandoned_wait_took_is_given_back() -> None:
    async def body(ctx: Any) -> Any:
        waiting = asyncio.ensure_future(ctx.wait_for_event("go"))
        nap = asyncio.ensure_future(ctx.sleep(5))
        await asyncio.wait([waiting, nap], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        return await ctx.wait_for_event("go")

    stage = Stage(body)
    await stage.life()
    stage.settle("1", 0)
    stage.settle("0", 0, "payload")
    assert isinstance(await stage.life(), Parked)
    assert stage.resent == [("go", b'"payload"', "unwaited/0/0")]


async def test_durations_may_be_timedeltas_and_bad_ones_are_refused() -> None:
    from datetime import timedelta

    async def body(ctx: Any) -> None:
        await ctx.sleep(timedelta(minutes=1) if ctx.params["good"] else "soon")

    stage = Stage(body, {})
    stage.params = {"good": True}
    stage.workflow = _open(body)
    parked = await stage.life()
    assert isinstance(parked, Parked) and parked.entries[0].due == stage.now() + 60_000_000
    other = Stage(body)
    other.params, other.workflow = {"good": False}, _open(body)
    outcome = await other.life()
    assert isinstance(outcome, Failed)
    assert msgspec.json.decode(outcome.error)["type"] == "ConfigurationError"


def _open(body: Any) -> Any:
    from pyrula.workflows.workflow import Registry, workflow

    async def any_params(ctx: Any, **params: Any) -> Any:
        return await body(ctx)

    return workflow(any_params, registry=Registry())


async def test_a_body_that_asks_for_nothing_completes() -> None:
    async def body(ctx: Any) -> None:
        return None

    assert await Stage(body).life() == Completed(b"null")
