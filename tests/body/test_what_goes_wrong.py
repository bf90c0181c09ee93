"""What a body does that it should not: it fails its run, and says what to do in its place."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from pyrula.model.outcome import Failed
from tests.body.stage import Stage


@pytest.mark.parametrize("in_a_branch", [False, True])
async def test_sys_exit_in_a_body_fails_the_run_and_not_the_worker(in_a_branch: bool) -> None:
    async def leave() -> None:
        await asyncio.sleep(0)
        sys.exit(3)

    async def body(ctx: Any) -> None:
        await (asyncio.create_task(leave()) if in_a_branch else leave())

    outcome = await Stage(body).life()
    assert isinstance(outcome, Failed)
    assert b"RuntimeError" in outcome.error
    assert b"SystemExit: 3" in outcome.error


async def test_sys_exit_in_the_making_of_a_param_fails_the_run_and_not_the_worker() -> None:
    @dataclass
    class Order:
        number: int

        def __post_init__(self) -> None:
            sys.exit(3)

    async def body(ctx: Any, order: Order) -> None: ...

    body.__annotations__["order"] = Order
    outcome = await Stage(body, {"order": {"number": 1}}).life()
    assert isinstance(outcome, Failed)
    assert b"SystemExit" in outcome.error


async def test_a_step_that_is_given_no_function_is_told_what_to_give() -> None:
    async def work() -> None: ...

    async def calls(ctx: Any) -> None:
        await ctx.step(work())

    async def names(ctx: Any) -> None:
        await ctx.step("work")

    for body, said in ((calls, b"give the function and its arguments"), (names, b"a name is given as name=")):
        outcome = await Stage(body).life()
        assert isinstance(outcome, Failed)
        assert said in outcome.error


async def test_a_group_of_errors_is_told_by_its_members_and_not_by_their_number() -> None:
    async def fails() -> None:
        raise ConnectionError("no line")

    async def body(ctx: Any) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())

    outcome = await Stage(body).life()
    assert isinstance(outcome, Failed)
    assert msgspec.json.decode(outcome.error)["message"] == (
        "unhandled errors in a TaskGroup (1 sub-exception): ConnectionError: no line"
    )
