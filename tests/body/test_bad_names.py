"""Names and ids that a log can't hold: they fail the call, not the turns of the worker that hands them in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pyrula.errors import InvalidPayload
from pyrula.testing import Environment
from pyrula.workflows import Registry, RunFailed, workflow

HALF = "half a pair: \ud83d"


async def nothing() -> None: ...


CALLS: dict[str, Callable[[Any, Any], Awaitable[Any]]] = {
    "wait_for_event": lambda ctx, name: ctx.wait_for_event(name),
    "step": lambda ctx, name: ctx.step(nothing, name=name),
    "run_child": lambda ctx, name: ctx.run_child(name),
    "start_child": lambda ctx, name: ctx.start_child(name),
    "run_id of run_child": lambda ctx, name: ctx.run_child("other", run_id=name),
    "run_id of start_child": lambda ctx, name: ctx.start_child("other", run_id=name),
    "params of run_child": lambda ctx, name: ctx.run_child("other", name),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "wrong", [7, True, False, 0, 1.5, float("nan"), 2**70, b"name", b"", ["name"], [], object(), HALF]
)
async def test_a_name_that_no_log_can_hold_fails_its_run_and_holds_up_no_other(call: str, wrong: Any) -> None:
    registry = Registry()

    @workflow(registry=registry)
    async def asks(ctx: Any) -> None:
        await CALLS[call](ctx, wrong)

    @workflow(registry=registry)
    async def other(ctx: Any) -> str:
        await ctx.sleep(1)
        return "done"

    async with Environment(workflows=registry) as env:
        run_id = await env.client.submit("asks")
        assert await env.until(env.client.execute("other")) == "done"
        with pytest.raises(RunFailed, match=r"InvalidPayload|NotJson"):
            await env.client.result(run_id)
        assert await env.store.check() == []


async def test_a_step_has_a_name_of_its_own_or_its_functions_and_never_an_empty_one() -> None:
    registry = Registry()

    @workflow(registry=registry)
    async def asks(ctx: Any, name: str | None) -> None:
        await ctx.step(nothing, name=name)

    async with Environment(workflows=registry) as env:
        for name, logged in (("own", "own"), (None, "nothing")):
            run_id = await env.client.submit("asks", {"name": name})
            await env.client.result(run_id)
            assert [step["name"] for step in await env.store.steps(run_id, 10)] == [logged]
        with pytest.raises(RunFailed, match=r"ctx\.step: the name is ''; leave name= out"):
            await env.client.execute("asks", {"name": ""})


@pytest.mark.parametrize("name", ["", "e" * 501, "ä" * 251, "two\nlines"])
async def test_an_event_that_nobody_can_send_is_not_waited_for(name: str) -> None:
    registry = Registry()

    @workflow(registry=registry)
    async def asks(ctx: Any) -> None:
        await ctx.wait_for_event(name)

    async with Environment(workflows=registry) as env:
        with pytest.raises(InvalidPayload, match="send_event: name"):
            await env.client.send_event("run", name)
        with pytest.raises(RunFailed, match=r"ctx\.wait_for_event: the name"):
            await env.until(env.client.execute("asks"))


async def test_an_error_of_any_message_and_code_can_be_kept() -> None:
    registry = Registry()

    class Odd(Exception):
        code = HALF

    @workflow(registry=registry)
    async def fails(ctx: Any) -> None:
        raise Odd(HALF)

    async with Environment(workflows=registry) as env:
        with pytest.raises(RunFailed, match=r"Odd: half a pair: \?"):
            await env.until(env.client.execute("fails"))
