"""Branches: gather, TaskGroup and friends replay alike, whoever won the race the first time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula.model.outcome import Parked
from pyrula.workflows.body import branching
from tests.body.stage import Stage, result


async def _double(x: int) -> int:
    return 2 * x


async def _part(ctx: Any, n: int) -> int:
    first: int = await ctx.step(_double, n)
    await ctx.sleep(n)
    second: int = await ctx.step(_double, first)
    return second


def _gathered() -> Any:
    async def body(ctx: Any) -> list[int]:
        return list(await asyncio.gather(*(_part(ctx, n) for n in range(1, 4))))

    return body


def _grouped() -> Any:
    async def body(ctx: Any) -> list[int]:
        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(_part(ctx, n)) for n in range(1, 4)]
        return [part.result() for part in parts]

    return body


@pytest.mark.parametrize("make", [_gathered, _grouped])
async def test_branches_of_several_steps_replay_in_whatever_order_they_are_settled(
    make: Callable[[], Any],
) -> None:
    for order in ("012", "210", "102"):
        stage = Stage(make())
        assert isinstance(await stage.life(), Parked)
        assert sorted(key for key in stage.log) == [(b, n) for b in "012" for n in (0, 1)]
        for branch in order[:-1]:
            stage.settle(branch, 1)
            assert isinstance(await stage.life(), Parked)
        stage.settle(order[-1], 1)
        assert result(await stage.life()) == [4, 8, 12]
        assert sorted(key for key in stage.log) == [(b, n) for b in "012" for n in (0, 1, 2)]


async def test_branches_below_branches_have_their_own_numbers() -> None:
    async def body(ctx: Any) -> Any:
        async def outer(n: int) -> Any:
            return list(await asyncio.gather(ctx.step(_double, n), ctx.step(_double, n + 1)))

        return list(await asyncio.gather(outer(1), outer(5)))

    stage = Stage(body)
    assert result(await stage.life()) == [[2, 4], [10, 12]]
    assert sorted(stage.log) == [("0.0", 0), ("0.1", 0), ("1.0", 0), ("1.1", 0)]


async def test_what_a_step_starts_is_no_branch() -> None:
    async def fan_out() -> int:
        return sum(await asyncio.gather(_double(1), _double(2)))

    async def body(ctx: Any) -> int:
        total: int = await ctx.step(fan_out)
        await asyncio.gather(ctx.sleep(1))
        return total

    stage = Stage(body)
    await stage.life()
    stage.settle("0", 0)
    assert result(await stage.life()) == 6


async def test_the_winner_of_a_race_is_the_same_in_every_replay() -> None:
    async def body(ctx: Any) -> list[Any]:
        won = []
        pending = {asyncio.ensure_future(ctx.wait_for_event(name)) for name in ("a", "b", "c")}
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            won.append(sorted(one.result() for one in done))
        await ctx.sleep(1)
        return won

    stage = Stage(body)
    await stage.life()
    keys = {entry.name: key for key, entry in stage.log.items()}
    for name in ("b", "c", "a"):  # all settled before the body lives again: it is told of them one by one
        stage.settle(*keys[name], name)
    await stage.life()
    stage.settle("", 0)
    assert result(await stage.life()) == [["b"], ["c"], ["a"]]


async def test_a_race_that_was_run_live_replays_alike() -> None:
    async def body(ctx: Any) -> Any:
        first = asyncio.ensure_future(ctx.step(_double, 1, name="x"))
        second = asyncio.ensure_future(ctx.step(_double, 2, name="y"))
        done, _ = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
        won = sorted(one.result() for one in done)
        rest = await asyncio.gather(first, second)
        await ctx.sleep(1)
        return [won, list(rest)]

    stage = Stage(body)
    await stage.life()
    stage.settle("", 0)
    assert result(await stage.life()) == [[2], [2, 4]]


async def test_the_loser_of_a_race_may_be_cancelled_and_is_not_started_again() -> None:
    started: list[str] = []

    async def slow() -> None:
        started.append("slow")
        await asyncio.Event().wait()

    async def body(ctx: Any) -> str:
        loser = asyncio.ensure_future(ctx.step(slow))
        winner = asyncio.ensure_future(ctx.step(_double, 1))
        await asyncio.wait([loser, winner], return_when=asyncio.FIRST_COMPLETED)
        loser.cancel()
        await ctx.sleep(1)
        return "done"

    stage = Stage(body)
    assert isinstance(await stage.life(), Parked)
    stage.settle("", 0)
    assert result(await stage.life()) == "done"
    assert started == ["slow"]


async def test_what_is_new_begins_when_the_replay_is_over() -> None:
    began: list[str] = []
    gate = asyncio.Event()

    async def quick() -> str:
        return "quick"

    async def slow() -> str:
        began.append("slow")
        await gate.wait()
        return "slow"

    async def body(ctx: Any) -> list[Any]:
        async def one() -> Any:
            await ctx.step(quick)
            began.append("after quick")
            return await ctx.wait_for_event("e")

        return list(await asyncio.gather(ctx.step(slow), one()))

    stage = Stage(body)
    await stage.life(lambda: stage.body.lose() if stage.body else None)  # as if the worker died
    assert stage.calls() == [("1", 0, "step", "done"), ("1", 1, "event", "waiting")]
    began.clear()
    outcome = await stage.life(lambda: stage.settle("1", 1, "event"), gate.set)
    assert began == ["after quick", "slow"]
    assert result(outcome) == ["slow", "event"]


async def test_wait_for_and_shield_and_as_completed_work() -> None:
    async def body(ctx: Any) -> list[Any]:
        got: list[Any] = [await asyncio.wait_for(ctx.step(_double, 1), 60)]
        got.append(await asyncio.shield(ctx.step(_double, 2)))
        parts = [asyncio.ensure_future(ctx.step(_double, n)) for n in (3, 4)]
        got += [await one for one in asyncio.as_completed(parts)]
        await ctx.sleep(1)
        return got

    stage = Stage(body)
    await stage.life()
    stage.settle("", 1)
    assert result(await stage.life()) == [2, 4, 6, 8]
    assert sorted(stage.log) == [("", 0), ("", 1), ("0", 0), ("1", 0), ("2", 0)]


async def test_wait_for_is_no_branch_on_any_python() -> None:
    async def body(ctx: Any) -> Any:
        async def two() -> Any:
            await ctx.step(_double, 1)
            return await ctx.wait_for_event("go")

        got = await asyncio.wait_for(two(), 3600)
        return [got, await ctx.step(_double, 2)]

    stage = Stage(body)
    gone: list[Any] = []
    outcome = await stage.life(lambda: gone.extend(stage.calls()), lambda: stage.body and stage.body.lose())
    assert outcome is None and gone == [("", 0, "step", "done"), ("", 1, "event", "waiting")]
    stage.settle("", 1, "now")
    assert result(await stage.life()) == ["now", 4]


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
async def test_as_completed_over_coroutines_is_refused_since_no_replay_could_repeat_its_order() -> None:
    async def body(ctx: Any) -> str:
        try:
            for one in asyncio.as_completed([ctx.step(_double, n) for n in range(9)]):
                await one
        except RuntimeError as error:
            return str(error)
        return "?"

    assert "pass it tasks" in result(await Stage(body).life())


async def test_what_was_started_around_the_factory_becomes_a_branch_when_it_asks() -> None:
    async def body(ctx: Any) -> int:
        async def ask() -> int:
            value: int = await ctx.step(_double, 4)
            return value

        return await asyncio.Task(ask(), loop=asyncio.get_running_loop())

    stage = Stage(body)
    assert result(await stage.life()) == 8
    assert list(stage.log) == [("0", 0)]


async def test_the_loop_gets_its_own_factory_back() -> None:
    loop = asyncio.get_running_loop()

    def own(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=loop, **options)

    loop.set_task_factory(own)
    with branching(loop):
        with branching(loop):
            assert loop.get_task_factory() is not own
        assert loop.get_task_factory() is not own
    assert loop.get_task_factory() is own
    loop.set_task_factory(None)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")
async def test_eager_starts_have_the_same_branches() -> None:
    loop = asyncio.get_running_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009 - mypy checks this file as 3.11
    try:
        stage = Stage(_gathered())
        await stage.life()
        for branch in "012":
            stage.settle(branch, 1)
        assert result(await stage.life()) == [4, 8, 12]
    finally:
        loop.set_task_factory(None)


@given(st.permutations([("0", 1), ("1", 1), ("2", 1)]), st.lists(st.booleans(), min_size=2, max_size=2))
def test_any_order_of_settling_and_any_park_in_between_gives_the_same_result(
    order: list[tuple[str, int]], parks: list[bool]
) -> None:
    async def history() -> None:
        stage = Stage(_gathered())
        await stage.life()
        for key, park in zip(order, [*parks, True], strict=True):
            stage.settle(*key)
            if park:
                outcome = await stage.life()
        assert result(outcome) == [4, 8, 12]

    asyncio.run(history())
