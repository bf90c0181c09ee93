"""F. Retries, and the slot and key they come back to."""

from __future__ import annotations

from typing import Any

from pyrula.workflows import Limit, Retry
from tests.cases.scene import Bystander, Scene, assert_times

HOUR = Retry(2, initial_seconds=3600, jitter=0)


def failing_once(scene: Scene) -> Any:
    """A body whose run `n="A"` fails at its first attempt."""

    async def body(ctx: Any, k: str, seconds: float = 0, n: str = "") -> None:
        with scene.seat(ctx, k, n):
            await scene.env.sleep(seconds)
            if n == "A" and ctx.attempt == 1:
                raise RuntimeError("the first attempt fails")

    return body


async def test_case_036_a_run_that_backs_off_holds_nobody_up(scene: Scene, bystander: Bystander) -> None:
    scene.declare(body=failing_once(scene), concurrency=Limit("k", 1), retry=HOUR)
    await scene.work()
    first = await scene.one(n="A")
    second = await scene.one(n="B", seconds=10)
    await bystander.queue()
    await scene.reach(4000)
    assert_times(scene.started(first), [0, 3600])
    assert_times(scene.started(second), [0])


async def test_case_036_a_run_that_backed_off_goes_ahead_of_fresh_ones(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(body=failing_once(scene), concurrency=Limit("k", 1), retry=HOUR)
    await scene.work()
    first = await scene.one(n="A")
    await scene.one(n="B", seconds=4000)
    third = await scene.one(n="C")
    await bystander.queue()
    await scene.reach(5000)
    assert_times(scene.started(first), [0, 4000])
    assert_times(scene.started(third), [4000])
    assert [start.n for start in scene.starts if start.key == "k"] == ["A", "B", "A", "C"]
    assert scene.peaks["k"] == 1


async def test_case_036_a_held_slot_is_kept_through_the_back_off(scene: Scene, bystander: Bystander) -> None:
    scene.declare(body=failing_once(scene), concurrency=Limit("k", 1, hold="run"), retry=HOUR)
    await scene.work()
    first = await scene.one(n="A")
    second = await scene.one(n="B")
    await bystander.queue()
    await scene.reach(5000)
    assert_times(scene.started(first), [0, 3600])
    assert_times(scene.started(second), [3600])


async def test_case_039_a_retry_counts_under_the_key_of_its_submission(
    scene: Scene, bystander: Bystander
) -> None:
    async def body(ctx: Any, k: str, who: dict[str, str], n: int = 0) -> None:
        with scene.seat(ctx, k):
            who["tenant"] = "b"
            await scene.env.sleep(10 if k == "k" else 0)
            if ctx.attempt == 1 and k == "k":
                raise RuntimeError("the first attempt fails")

    def tenant(params: dict[str, Any]) -> str:
        return str(params["who"]["tenant"])

    policies = {"body": body, "retry": Retry(2, initial_seconds=5, jitter=0)}
    scene.declare(concurrency=Limit(tenant, 1), **policies)
    await scene.work()
    ids = await scene.submit(2, who={"tenant": "a"})
    await bystander.queue(who={"tenant": "c"})
    await scene.reach(9)
    await scene.redeploy(concurrency=Limit(lambda params: "b", 1), **policies)
    for at in range(1, 60):
        await scene.reach(9 + at)
        assert (await scene.executing(key="a"), await scene.executing(key="b")) in ((0, 0), (1, 0))
    assert scene.peaks["k"] == 1
    assert_times(scene.times(), [0, 10, 20, 30])
    for run_id in ids:
        run = await scene.client.get(run_id)
        assert (run.state, run.attempt, run.keys) == ("completed", 2, {"w.limit": "a"})
