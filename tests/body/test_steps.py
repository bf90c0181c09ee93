"""Steps: run at least once, and once logged never again."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import msgspec
import pytest

from pyrula.errors import StepFailed
from pyrula.model.outcome import Cancelled, Completed, Failed, Parked, Postponed, Released, Retry
from pyrula.model.step import ErrorValue
from pyrula.policies import Retry as RetryPolicy
from pyrula.policies.retry import RetryStamp
from pyrula.workflows.retry_after import RetryAfter
from tests.body.stage import Stage, result


async def test_a_logged_step_is_not_run_again() -> None:
    ran: list[int] = []

    async def double(x: int) -> int:
        ran.append(x)
        return 2 * x

    async def body(ctx: Any) -> int:
        first = await ctx.step(double, 1)
        second = await ctx.step(double, x=2)
        await ctx.sleep(5)
        return first + second

    stage = Stage(body)
    assert isinstance(await stage.life(), Parked)
    stage.settle("", 2)
    assert result(await stage.life()) == 6
    assert ran == [1, 2]


async def test_a_plain_function_runs_in_a_thread_and_sees_the_context() -> None:
    def where(ctx: Any) -> list[Any]:
        return [threading.current_thread() is threading.main_thread(), ctx.step_id]

    async def body(ctx: Any) -> Any:
        return await ctx.step(where, ctx)

    assert result(await Stage(body).life()) == [False, "run-1/:0"]


async def test_a_lambda_around_a_coroutine_function_is_awaited() -> None:
    async def one() -> int:
        return 1

    async def body(ctx: Any) -> Any:
        return await ctx.step(lambda: one(), name="one")  # noqa: PLW0108 - a lambda is the point

    stage = Stage(body)
    assert result(await stage.life()) == 1
    assert stage.log["", 0].name == "one"


async def test_a_failed_step_raises_the_same_live_and_replayed() -> None:
    seen: list[tuple[str, str, bool]] = []

    async def fail() -> None:
        raise ValueError("no such account")

    async def body(ctx: Any) -> str:
        try:
            await ctx.step(fail)
        except StepFailed as error:
            seen.append((error.type, error.message, isinstance(error.__cause__, ValueError)))
        await ctx.sleep(1)
        return "handled"

    stage = Stage(body)
    await stage.life()
    stage.settle("", 1)
    assert result(await stage.life()) == "handled"
    assert seen == [("ValueError", "no such account", True), ("ValueError", "no such account", False)]


async def test_a_result_that_is_not_json_fails_the_step_and_names_the_path() -> None:
    async def body(ctx: Any) -> None:
        await ctx.step(lambda: {"when": {1, 2}}, name="look")

    outcome = await Stage(body).life()
    assert isinstance(outcome, Failed)
    error = msgspec.json.decode(outcome.error, type=ErrorValue)
    assert error.type == "StepFailed"
    assert "result of step 'look'.when" in error.message


async def test_a_step_is_tried_as_often_as_its_policy_says_and_then_fails() -> None:
    tries: list[float] = []

    async def body(ctx: Any) -> str:
        async def flaky() -> None:
            tries.append(stage.clock.now)
            raise OSError("again")

        try:
            await ctx.step(flaky, retry=RetryPolicy(max_attempts=3, initial_seconds=0.25, jitter=0))
        except StepFailed as error:
            return str(error)
        return "?"

    stage = Stage(body)
    outcome = await stage.life(lambda: stage.clock.move(250_000), lambda: stage.clock.move(750_000))
    assert result(outcome) == "step 'flaky': OSError: again"
    assert tries == [0, 0.25, 0.75]


async def test_a_long_back_off_of_a_step_parks_the_run_and_counts_on() -> None:
    tries: list[int] = []

    async def flaky() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("again")
        return len(tries)

    async def body(ctx: Any) -> int:
        value: int = await ctx.step(flaky, retry=RetryPolicy(max_attempts=3, initial_seconds=60, jitter=0))
        await ctx.sleep(1)
        return value

    stage = Stage(body)
    first = await stage.life()
    assert isinstance(first, Parked)
    assert [(e.branch, e.number, e.kind, e.due) for e in first.entries] == [
        ("-1", 1, "sleep", stage.now() + 60_000_000)
    ]
    stage.settle("-1", 1)
    second = await stage.life()
    assert isinstance(second, Parked)
    stage.settle("-1", 2)
    third = await stage.life()
    assert isinstance(third, Parked)
    assert third.entries[0].number == 1
    stage.settle("", 1)
    assert result(await stage.life()) == 3
    assert len(tries) == 3


async def test_a_step_that_does_not_end_in_time_fails() -> None:
    stopped: list[bool] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    async def body(ctx: Any) -> str:
        try:
            await ctx.step(forever, timeout=5)
        except StepFailed as error:
            return str(error)
        return "?"

    stage = Stage(body)
    outcome = await stage.life(lambda: stage.clock.move(5_000_000))
    assert result(outcome) == "step 'forever': TimeoutError: not over within 5 s"
    assert stopped == [True]


async def test_a_thread_that_does_not_end_in_time_fails_its_step_when_it_has_ended() -> None:
    gate = threading.Event()

    def block() -> str:
        assert gate.wait(10)
        return "late"

    async def body(ctx: Any) -> str:
        try:
            await ctx.step(block, timeout=5)
        except StepFailed as error:
            return str(error)
        return "?"

    stage = Stage(body)
    states: list[bool] = []
    outcome = await stage.life(
        lambda: stage.clock.move(5_000_000),
        lambda: states.append(stage.body is not None and stage.body.closing),
        gate.set,
    )
    assert result(outcome) == "step 'block': TimeoutError: not over within 5 s"
    assert states == [False]


async def test_a_cancelled_run_is_over_when_its_thread_has_ended() -> None:
    gate = threading.Event()
    unwound: list[bool] = []

    async def body(ctx: Any) -> None:
        try:
            await ctx.step(lambda: gate.wait(10), name="block")
        finally:
            unwound.append(True)

    stage = Stage(body)
    order: list[str] = []
    outcome = await stage.life(
        lambda: stage.body.cancel() if stage.body else None,
        lambda: order.append(f"unwound {unwound} threads {stage.body.threads if stage.body else '?'}"),
        gate.set,
    )
    assert isinstance(outcome, Cancelled)
    assert order == ["unwound [True] threads 1"]


async def test_a_body_that_swallows_its_cancellation_is_cancelled_all_the_same() -> None:
    async def body(ctx: Any) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "stubborn"
        return "?"

    stage = Stage(body)
    assert isinstance(await stage.life(lambda: stage.body.cancel() if stage.body else None), Cancelled)


async def test_a_context_is_closed_while_a_body_unwinds() -> None:
    met: list[str] = []

    async def body(ctx: Any) -> None:
        try:
            await ctx.sleep(60)
        finally:
            try:
                await ctx.step(lambda: met.append("ran"), name="late")
            except asyncio.CancelledError as error:
                met.append(type(error).__name__)

    assert isinstance(await Stage(body).life(), Parked)
    assert met == ["BodyClosed"]


async def test_a_context_is_not_to_be_asked_inside_a_step() -> None:
    async def body(ctx: Any) -> str:
        async def nested() -> None:
            await ctx.sleep(1)

        try:
            await ctx.step(nested)
        except StepFailed as error:
            return str(error)
        return "?"

    assert "inside step 'nested'" in result(await Stage(body).life())


async def test_a_failed_attempt_is_retried_without_its_failed_step() -> None:
    ran: list[str] = []

    async def charge() -> str:
        ran.append("charge")
        return "paid"

    async def ship() -> str:
        ran.append("ship")
        if ran.count("ship") == 1:
            raise OSError("no courier")
        return "sent"

    async def tidy() -> None:
        ran.append("tidy")

    async def body(ctx: Any) -> list[str]:
        paid = await ctx.step(charge)
        try:
            sent = await ctx.step(ship)
        except StepFailed:
            await ctx.step(tidy)
            raise
        return [paid, sent]

    stage = Stage(body, retry=RetryStamp(max_attempts=2, jitter=0))
    first = await stage.life()
    assert isinstance(first, Retry)
    assert (first.drop, first.delay) == ((("", 1), ("", 2)), 1_000_000)
    assert result(await stage.life()) == ["paid", "sent"]
    assert ran == ["charge", "ship", "tidy", "ship"]


async def test_the_last_attempt_fails_the_run() -> None:
    async def body(ctx: Any) -> None:
        raise LookupError(f"attempt {ctx.attempt}")

    stage = Stage(body, retry=RetryStamp(max_attempts=2))
    assert isinstance(await stage.life(), Retry)
    outcome = await stage.life()
    assert isinstance(outcome, Failed)
    error = msgspec.json.decode(outcome.error, type=ErrorValue)
    assert (error.type, error.message) == ("LookupError", "attempt 2")
    assert error.traceback is not None and "raise LookupError" in error.traceback


@pytest.mark.parametrize("where", ["body", "step", "group"])
async def test_retry_after_postpones_the_run_from_wherever_it_is_raised(where: str) -> None:
    async def refused() -> None:
        raise RetryAfter(30, gate="api")

    async def body(ctx: Any) -> None:
        if where == "body":
            await refused()
        elif where == "step":
            await ctx.step(refused, retry=RetryPolicy())
        else:
            async with asyncio.TaskGroup() as group:
                group.create_task(ctx.step(refused))

    outcome = await Stage(body, retry=RetryStamp(max_attempts=3)).life()
    assert outcome == Postponed(30_000_000, "api")


async def test_an_attempt_that_is_not_over_in_time_fails_by_its_policy() -> None:
    async def body(ctx: Any) -> None:
        await asyncio.Event().wait()

    stage = Stage(body, retry=RetryStamp(max_attempts=2), timeout=7_000_000)
    first = await stage.life(lambda: stage.clock.move(7_000_000))
    assert isinstance(first, Retry)
    assert b"not over within 7 s" in first.error


async def test_a_released_body_unwinds_and_is_handed_back() -> None:
    async def body(ctx: Any) -> None:
        await asyncio.Event().wait()

    stage = Stage(body)
    assert isinstance(await stage.life(lambda: stage.body.release() if stage.body else None), Released)


async def test_what_a_body_leaves_running_ends_with_it() -> None:
    ended: list[bool] = []

    async def background() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def body(ctx: Any) -> str:
        keep = asyncio.create_task(background())
        await asyncio.sleep(0)
        return "done" if not keep.done() else "?"

    assert isinstance(await Stage(body).life(), Completed)
    assert ended == [True]


async def test_sys_exit_in_a_step_fails_the_step_and_not_the_worker() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    async def body(ctx: Any) -> str:
        try:
            await ctx.step(leave)
        except StepFailed as error:
            return str(error)
        return "?"

    assert result(await Stage(body).life()) == "step 'leave': SystemExit: 3"


async def test_params_reach_the_body_as_it_annotates_them() -> None:
    async def body(ctx: Any, when: time.struct_time | None = None, n: int = 1) -> list[Any]:
        return [n, ctx.params]

    assert result(await Stage(body, {"n": 5}).life()) == [5, {"n": 5}]
    outcome = await Stage(body, {"n": "five"}).life()
    assert isinstance(outcome, Failed)
    assert b"InvalidParams" in outcome.error
