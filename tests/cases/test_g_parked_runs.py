"""G. Runs that sleep or wait, parents and children, and the slots they give back or keep."""

from __future__ import annotations

from typing import Any

import pytest

from pyrula.workflows import (
    ConfigurationError,
    Limit,
    Registry,
    RunCancelled,
    RunExpired,
    SlotDeadlock,
    workflow,
)
from tests.cases.scene import Bystander, Scene, assert_times


@pytest.mark.parametrize(
    ("hold", "second_starts", "first_goes_on", "third_starts"),
    [("executing", 0, 400, 400), ("run", 300, 300, 700)],
)
async def test_case_041_a_run_that_waits_for_an_event_gives_its_slot_back_unless_it_holds_it(
    scene: Scene,
    bystander: Bystander,
    hold: Any,
    second_starts: int,
    first_goes_on: int,
    third_starts: int,
) -> None:
    went_on: list[tuple[float, Any]] = []

    async def body(ctx: Any, k: str, seconds: float = 0, waits: bool = False) -> None:
        with scene.seat(ctx, k):
            if waits:
                payload = await ctx.wait_for_event("go", timeout=600)
                went_on.append((scene.env.now, payload))
            await scene.env.sleep(seconds)

    scene.declare(body=body, concurrency=Limit("k", 1, hold=hold))
    await scene.work()
    first = await scene.one(waits=True)
    second = await scene.one(seconds=400)
    third = await scene.one()
    await bystander.queue()
    await scene.reach(1)
    assert await scene.state(first) == "parked"
    await scene.reach(300)
    await scene.client.send_event(first, "go", "the event")
    await scene.reach(1000)
    assert_times([went_on[0][0]], [first_goes_on])
    assert [payload for _, payload in went_on] == ["the event"]
    assert_times(scene.started(second), [second_starts])
    assert_times(scene.started(third), [third_starts])
    assert scene.order()[-2:] == ([first, third] if hold == "executing" else [second, third])
    assert scene.peaks["k"] == 1


def family(scene: Scene, hold: Any, depth: int) -> None:
    """Workflows `w` and `child` that share a gate; `w` runs itself as a child until `depth`, then `child`."""

    async def parent(ctx: Any, k: str, level: int = 1) -> list[str]:
        with scene.seat(ctx, k):
            if k != "k":
                return []
            name, more = ("w", {"level": level + 1}) if level < depth else ("child", {})
            result = await ctx.run_child(name, {"k": k, **more})
        with scene.seat(ctx, k):
            await scene.env.sleep(1)
        return [f"level {level}", *result]

    async def child(ctx: Any, k: str) -> list[str]:
        with scene.seat(ctx, k):
            await scene.env.sleep(1)
        return ["child"]

    for name, body in (("w", parent), ("child", child)):
        scene.declare(name, body=body, concurrency=Limit("k", 1, shared="g", hold=hold))


@pytest.mark.parametrize("hold", ["executing", "run"])
@pytest.mark.parametrize("depth", [1, 3])
async def test_case_042_a_parent_that_waits_for_a_child_of_its_gate_does_not_hang(
    scene: Scene, bystander: Bystander, hold: Any, depth: int
) -> None:
    """With hold="run" the report's SlotDeadlock is not raised: a child that needs the slot which a waiting
    ancestor holds shares it, so that all finish, never two bodies at once."""
    family(scene, hold, depth)
    await scene.work()
    run_id = await scene.one()
    behind = await scene.one("child")
    await bystander.queue()
    result = await scene.env.until(scene.client.result(run_id), within=100)
    assert result == [*(f"level {level}" for level in range(1, depth + 1)), "child"]
    await scene.reach(200)
    assert await scene.state(behind) == "completed"
    assert scene.peaks["k"] == 1
    assert await scene.executing("g") == 0


async def test_case_042_many_waiting_parents_do_not_hold_their_childrens_slots(
    scene: Scene, bystander: Bystander
) -> None:
    family(scene, "executing", 1)
    await scene.work()
    ids = [await scene.one() for _ in range(20)]
    await bystander.queue()
    await scene.reach(100)
    assert await scene.states(ids) == ["completed"] * 20
    assert scene.peaks["k"] == 1


async def test_case_042_a_cycle_of_held_slots_fails_its_youngest_parent_catchably(
    scene: Scene, bystander: Bystander
) -> None:
    """Two parents, each waiting for a child that needs the slot which the other one holds."""
    caught: list[tuple[float, str]] = []

    async def parent(ctx: Any, k: str, child: str = "") -> str:
        with scene.seat(ctx, k):
            if not child:
                return "alone"
            await ctx.sleep(1)
            try:
                return str(await ctx.run_child(child, {"k": k}))
            except SlotDeadlock as error:
                caught.append((scene.env.now, str(error)))
                return "caught"

    async def child(ctx: Any, k: str) -> str:
        return f"child of {ctx.workflow}"

    for gate, name in (("g", "w"), ("h", "v")):
        limit = Limit("k", 1, shared=gate, hold="run")
        scene.declare(name, body=parent, concurrency=limit)
        scene.declare(f"{name}_child", body=child, concurrency=limit)
    await scene.work()
    elder = await scene.one("w", child="v_child")
    younger = await scene.one("v", child="w_child")
    await bystander.queue()
    await scene.reach(15)
    assert await scene.env.until(scene.client.result(younger)) == "caught"
    assert await scene.env.until(scene.client.result(elder)) == "child of v_child"
    ((at, message),) = caught
    assert at <= 1 + 10
    assert elder in message
    assert younger in message


@pytest.mark.parametrize("ends", ["cancelled", "expired"])
async def test_case_046_a_child_that_ends_without_a_start_wakes_its_parent(
    scene: Scene, bystander: Bystander, ends: str
) -> None:
    went_on: list[tuple[float, type[Exception]]] = []

    async def parent(ctx: Any, k: str) -> None:
        options = {"expires_in": 1} if ends == "expired" else {}
        try:
            await ctx.run_child("w", {"k": k}, run_id="child", **options)
        except (RunCancelled, RunExpired) as error:
            went_on.append((scene.env.now, type(error)))

    scene.declare(concurrency=Limit("k", 1))
    scene.declare("parent", body=parent)
    await scene.work()
    holder = await scene.one(seconds=100)
    parent_id = await scene.one("parent")
    assert await scene.states([parent_id, "child"]) == ["parked", "queued"]
    await bystander.queue()
    await scene.reach(1)
    if ends == "cancelled":
        await scene.client.cancel("child")
    await scene.reach(2)
    assert [kind for _, kind in went_on] == [RunCancelled if ends == "cancelled" else RunExpired]
    assert_times([at for at, _ in went_on], [1])
    assert await scene.states([parent_id, "child", holder]) == ["completed", ends, "executing"]
    assert await scene.executing() == 1
    assert scene.started("child") == []


@pytest.mark.parametrize("names", [{}, {"name": "g"}, {"shared": "g"}])
def test_case_048_a_gate_declared_twice_is_refused(names: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="'w'"):

        @workflow(name="w", concurrency=[Limit("k", 1, **names), Limit("k", 1, **names)], registry=Registry())
        async def body(ctx: Any, k: str) -> None: ...


async def test_case_048_a_run_in_two_gates_of_one_key_does_not_wait_for_itself(
    scene: Scene, bystander: Bystander
) -> None:
    """Gates of their own, so both are legal: a key that means the same, and a slot that is held beside one
    that is not."""
    scene.declare(concurrency=[Limit("k", 1), Limit(lambda p: p["k"], 1), Limit("k", 1, hold="run")])
    await scene.work()
    ids = await scene.submit(2, seconds=10)
    await bystander.queue()
    await scene.reach(30)
    assert scene.order() == ids
    assert_times(scene.times(), [0, 10])
    assert scene.peaks["k"] == 1


async def test_case_048_a_step_takes_no_slot(scene: Scene, bystander: Bystander) -> None:
    async def body(ctx: Any, k: str) -> int:
        async def step() -> int:
            return await scene.executing(key="k")

        return int(await ctx.step(step))

    scene.declare(body=body, concurrency=Limit("k", 1))
    scene.declare("other", concurrency=Limit("k", 1))
    await scene.work()
    run_id = await scene.one()
    await bystander.queue("other")
    assert await scene.client.result(run_id) == 1
