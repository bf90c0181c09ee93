"""What is tried again, and what can only be refused again."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from pyrula.errors import InvalidParams, NoRetry, PyrulaError, StepFailed, WorkflowNotFound
from pyrula.model.outcome import Completed, Failed, Parked, Retry
from pyrula.policies import Retry as RetryPolicy
from pyrula.policies.retry import RetryStamp
from pyrula.workflows.retry_after import RetryAfter
from tests.body.stage import Stage

THREE = RetryStamp(max_attempts=3)
tries: list[str] = []


async def _refused(where: str) -> None:
    tries.append(where)
    raise InvalidParams("child takes no 'colour'")


async def by_the_body(ctx: Any) -> None:
    await _refused("body")


async def by_a_step(ctx: Any) -> None:
    await ctx.step(_refused, "step", retry=RetryPolicy(max_attempts=5, initial_seconds=0.1))


async def by_one_of_several(ctx: Any) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(by_a_step(ctx))


async def for_its_result(ctx: Any) -> object:
    tries.append("result")
    return object()


async def for_its_retry_after(ctx: Any) -> None:
    tries.append("later")
    raise RetryAfter(-1)


async def for_its_params(ctx: Any, n: int) -> None:
    tries.append("never")


@pytest.mark.parametrize(
    "body", [by_the_body, by_a_step, by_one_of_several, for_its_result, for_its_retry_after]
)
async def test_what_pyrula_refused_is_not_tried_again(body: Any) -> None:
    tries.clear()
    assert isinstance(await Stage(body, retry=THREE).life(), Failed)
    assert len(tries) == 1


async def test_params_that_the_body_does_not_take_fail_the_run_at_once() -> None:
    outcome = await Stage(for_its_params, {"n": "many"}, retry=THREE).life()
    assert isinstance(outcome, Failed)
    assert msgspec.json.decode(outcome.error)["code"] == "invalid_params"


async def test_what_was_refused_in_a_step_of_an_earlier_life_is_not_tried_again_either() -> None:
    async def body(ctx: Any) -> None:
        try:
            await ctx.step(_refused, "step")
        except PyrulaError:
            await ctx.sleep(5)
            raise

    stage = Stage(body, retry=THREE)
    assert isinstance(await stage.life(), Parked)
    stage.settle("", 1)
    assert isinstance(await stage.life(), Failed)


class CardRefused(NoRetry):
    code = "card_refused"  # it goes by no_retry all the same


async def _charge(where: str) -> None:
    tries.append(where)
    raise CardRefused("the card is blocked")


@pytest.mark.parametrize("in_a_step", [True, False])
async def test_what_is_said_to_be_final_is_not_tried_again_in_this_life_or_a_later_one(
    in_a_step: bool,
) -> None:
    async def body(ctx: Any) -> None:
        if not in_a_step:
            await _charge("body")
        try:
            await ctx.step(_charge, "step", retry=RetryPolicy(max_attempts=5, initial_seconds=0.1))
        except StepFailed:
            await ctx.sleep(5)
            raise

    tries.clear()
    stage = Stage(body, retry=THREE)
    outcome = await stage.life()
    if in_a_step:
        assert isinstance(outcome, Parked)
        stage.settle("", 1)
        outcome = await stage.life()
    assert isinstance(outcome, Failed) and len(tries) == 1
    if not in_a_step:
        assert msgspec.json.decode(outcome.error)["code"] == "no_retry"


async def test_a_refusal_that_the_body_catches_ends_nothing() -> None:
    async def body(ctx: Any) -> None:
        try:
            await ctx.step(_refused, "step")
        except PyrulaError:
            raise ConnectionError("another one") from None

    assert isinstance(await Stage(body, retry=THREE).life(), Retry)


async def test_what_somebody_may_still_put_right_is_tried_again() -> None:
    async def body(ctx: Any) -> None:
        raise WorkflowNotFound("no workflow is called 'later'")

    assert isinstance(await Stage(body, retry=THREE).life(), Retry)


async def test_a_step_that_is_made_anew_has_all_its_tries_again() -> None:
    tried: list[int] = []

    async def body(ctx: Any) -> int:
        async def flaky() -> int:
            tried.append(ctx.attempt)
            if len(tried) < 6:
                raise OSError("again")
            return len(tried)

        await ctx.step(int)
        count: int = await ctx.step(flaky, retry=RetryPolicy(max_attempts=3, initial_seconds=60, jitter=0))
        return count

    stage = Stage(body, retry=RetryStamp(max_attempts=2, jitter=0))
    for number in (1, 2):
        assert isinstance(await stage.life(), Parked)
        stage.settle("-2", number)
    first = await stage.life()
    assert isinstance(first, Retry)
    assert sorted(first.drop) == [("", 1), ("-2", 1), ("-2", 2)]
    for number in (1, 2):
        assert isinstance(await stage.life(), Parked)
        stage.settle("-2", number)
    last = await stage.life()
    assert isinstance(last, Completed) and last.result == b"6"
    assert tried == [1, 1, 1, 2, 2, 2]
