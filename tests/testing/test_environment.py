"""The environment: a day takes no longer than what happens in it."""

import asyncio
import re
import threading
from datetime import UTC, datetime

import pytest

from pyrula.errors import ConfigurationError, InvalidPayload
from pyrula.testing import Environment
from pyrula.testing.environment import NothingDue
from pyrula.workflows import Collect, Debounce, Every, Limit, Rate, Registry, Retry, RetryAfter, workflow


@pytest.fixture
def registry():
    return Registry()


async def test_a_sleep_of_a_day_takes_no_time(registry):
    @workflow(registry=registry)
    async def nap(ctx, hours: int) -> str:
        await ctx.sleep(hours * 3600)
        return "rested"

    async with Environment(workflows=registry) as env:
        run_id = await env.client.submit("nap", {"hours": 24})
        await env.advance(24 * 3600 - 1)
        assert (await env.client.get(run_id)).state == "parked"
        await env.advance(1)
        assert await env.client.result(run_id) == "rested"
        assert env.now == 24 * 3600


async def test_everything_in_between_happens_at_its_own_time_and_in_order(registry):
    starts: list[tuple[str, float]] = []

    @workflow(registry=registry, rate_limit=Rate(key="k", per_second=2 / 3, burst=2))
    async def tick(ctx, k: str) -> None:
        starts.append((k, env.now))

    async with Environment(workflows=registry) as env:
        for key in ("a", "a", "a", "b", "a"):
            await env.client.submit("tick", {"k": key})
        await env.advance(10)
    assert [at for key, at in starts if key == "a"] == [0.0, 0.0, 1.5, 3.0]
    assert [at for key, at in starts if key == "b"] == [0.0]


async def test_bodies_pretend_to_work_in_virtual_time(registry):
    ends: list[float] = []

    @workflow(registry=registry, concurrency=Limit(key="k", max=2))
    async def work(ctx, k: str) -> None:
        await env.sleep(3)
        ends.append(env.now)

    async with Environment(workflows=registry) as env:
        for _ in range(5):
            await env.client.submit("work", {"k": "a"})
        await env.client.submit("work", {"k": "b"})
        await env.advance(9)
    assert ends == [3.0, 3.0, 3.0, 6.0, 6.0, 9.0]


async def test_windows_fire_when_they_are_due(registry):
    batches: list[tuple[str, float, int]] = []

    @workflow(registry=registry, trigger=Collect(key="k", max_events=3, window_seconds=60))
    async def digest(ctx, key: str, events: list, count: int) -> None:
        batches.append((key, env.now, count))

    @workflow(registry=registry, trigger=Debounce(key="k", window_seconds=5))
    async def index(ctx, key: str, events: list, count: int) -> None:
        batches.append((key, env.now, count))

    async with Environment(workflows=registry) as env:
        for _ in range(4):
            await env.client.trigger("digest", {"k": "d"})
        await env.client.trigger("index", {"k": "i"})
        await env.advance(4)
        await env.client.trigger("index", {"k": "i"})
        await env.advance(60)
    assert batches == [("d", 0.0, 3), ("i", 9.0, 2), ("d", 60.0, 1)]


async def test_threads_of_steps_are_waited_for(registry):
    went_on = threading.Event()

    def in_a_thread() -> str:
        went_on.wait(0.05)
        return threading.current_thread().name

    @workflow(registry=registry)
    async def threaded(ctx) -> str:
        return await ctx.step(in_a_thread)

    async with Environment(workflows=registry) as env:
        run_id = await env.client.submit("threaded")
        await env.settle()
        assert (await env.client.get(run_id)).state == "completed"


async def test_until_lets_time_pass_just_as_far_as_needed(registry):
    @workflow(registry=registry)
    async def nap(ctx) -> float:
        await ctx.sleep(7.5)
        return env.now

    async with Environment(workflows=registry) as env:
        assert await env.until(env.client.execute("nap")) == 7.5
        assert env.now == 7.5


async def test_until_says_when_nothing_more_can_happen(registry):
    @workflow(registry=registry)
    async def waits(ctx) -> None:
        await ctx.wait_for_event("never")

    @workflow(registry=registry)
    async def ticks(ctx) -> None:
        while True:
            await ctx.sleep(3600)

    async with Environment(workflows=registry) as env:
        told = "nothing more is due.*; run 'mine' of 'waits': It waits for the event 'never'"
        with pytest.raises(NothingDue, match=told):
            await env.until(env.client.execute("waits", run_id="mine"))
        await env.client.submit("ticks", run_id="other")
        told = "not over within 86400.*; run 'other' of 'ticks': It sleeps until .*; run 'mine'"
        with pytest.raises(TimeoutError, match=told):
            await env.until(env.client.result("mine"), within=86_400)


async def test_the_wall_that_steps_back_adds_no_time_and_takes_none(registry):
    starts: list[float] = []

    @workflow(registry=registry, rate_limit=Rate(key="k", per_second=1, burst=3))
    async def tick(ctx, k: str) -> None:
        starts.append(env.now)

    async with Environment(workflows=registry) as env:
        await env.client.submit("tick", {"k": "a"})
        await env.settle()
        env.clock.step_wall(-11)
        for _ in range(3):
            await env.client.submit("tick", {"k": "a"})
        await env.advance(20)
    assert starts == [0.0, 0.0, 0.0, 1.0]


async def test_a_killed_workers_runs_start_again_when_its_lease_lapses(registry):
    starts: list[tuple[str, float]] = []

    @workflow(registry=registry, concurrency=Limit(key="k", max=1))
    async def work(ctx, k: str, name: str) -> None:
        starts.append((name, env.now))
        await env.sleep(100 if len(starts) == 1 else 1)

    async with Environment(workflows=registry, lease_seconds=30) as env:
        await env.client.submit("work", {"k": "a", "name": "first"})
        await env.client.submit("work", {"k": "a", "name": "second"})
        await env.advance(5)
        await env.kill(env.worker)
        await env.start_worker()
        await env.advance(40)
    assert [name for name, _ in starts] == ["first", "first", "second"]
    assert 30 <= starts[1][1] <= 36


async def test_a_stopped_worker_hands_its_runs_back_at_once(registry):
    starts: list[float] = []

    @workflow(registry=registry)
    async def work(ctx) -> None:
        starts.append(env.now)
        await env.sleep(100)

    async with Environment(workflows=registry) as env:
        await env.client.submit("work")
        await env.advance(5)
        await env.stop_worker(env.worker)
        await env.start_worker()
        assert starts == [0.0, 5.0]


async def test_a_lease_outlives_any_jump_of_the_clock(registry):
    starts: list[float] = []

    @workflow(registry=registry)
    async def long(ctx) -> None:
        starts.append(env.now)
        await env.sleep(400 * 86_400)

    async with Environment(workflows=registry) as env:
        run_id = await env.client.submit("long")
        await env.advance(400 * 86_400)
        assert (await env.client.get(run_id)).state == "completed"
    assert starts == [0.0]


async def test_the_wall_clock_starts_where_it_is_told_to(registry):
    async with Environment(workflows=registry, start=datetime(2026, 3, 29, tzinfo=UTC)) as env:
        await env.advance(3600)
        assert env.clock.today == datetime(2026, 3, 29, 1, tzinfo=UTC)


async def test_retries_and_back_offs_take_virtual_time(registry):
    tries: list[float] = []

    @workflow(registry=registry, retry=Retry(max_attempts=3, initial_seconds=10, factor=2, jitter=0))
    async def flaky(ctx) -> str:
        tries.append(env.now)
        if ctx.attempt < 3:
            raise OSError("not yet")
        return "done"

    @workflow(registry=registry, rate_limit=Rate(key=None, per_second=100))
    async def told_off(ctx) -> str:
        if not tries[3:]:
            tries.append(env.now)
            raise RetryAfter(7)
        return f"{env.now:g}"

    async with Environment(workflows=registry) as env:
        assert await env.until(env.client.execute("flaky")) == "done"
        assert tries == [0.0, 10.0, 30.0]
        assert await env.until(env.client.execute("told_off")) == "37"


async def test_what_a_worker_dies_of_is_raised(registry):
    async def broken(*_):
        raise RuntimeError("the disk is gone")

    async with Environment(workflows=registry, worker=False) as env:
        env.store.register = broken
        with pytest.raises(RuntimeError, match="the disk is gone"):
            await env.start_worker()
        assert env.workers == []


async def test_a_worker_that_can_not_stop_is_given_up(registry):
    async def broken(*_):
        raise RuntimeError("the disk is gone")

    @workflow(registry=registry)
    async def long(ctx) -> None:
        await env.sleep(60)

    env = Environment(workflows=registry)
    with pytest.raises(TimeoutError, match="virtual seconds"):
        async with env:
            await env.client.submit("long")
            await env.settle()
            env.store.turn = broken
    assert env.workers == []


async def test_what_is_no_duration_is_named_with_its_value(registry):
    async with Environment(workflows=registry) as env:
        for call, told in [
            (lambda: env.advance("3"), "Environment.advance: seconds is '3'; it must be seconds"),
            (lambda: env.advance(-1), "Environment.advance: seconds is -1; it must be 0 or more"),
            (lambda: env.sleep(None), "Environment.sleep: seconds is None"),
            (lambda: env.until(env.settle(), within="1 d"), "Environment.until: within is '1 d'"),
            (lambda: env.stop_worker(env.worker, "1"), "Environment.stop_worker: grace_seconds is '1'"),
        ]:
            with pytest.raises(InvalidPayload, match=re.escape(told)):
                await call()
        with pytest.raises(InvalidPayload, match="step_wall: seconds is '1'"):
            env.clock.step_wall("1")
        assert env.now == 0


async def test_what_has_no_worker_to_wait_for_says_so(registry):
    @workflow(registry=registry)
    async def one(ctx) -> int:
        return 1

    env = Environment(workflows=registry)  # not entered
    with pytest.raises(NothingDue, match="no worker runs: enter it with `async with`"):
        await env.until(env.client.execute("one"))
    await env.store.close()
    async with Environment(workflows=registry) as env:
        gone = env.worker
        await env.kill(gone)
        with pytest.raises(RuntimeError, match="none that this environment runs"):
            await env.stop_worker(gone)


def test_workflows_in_the_place_of_the_url_are_told_where_they_go(registry):
    with pytest.raises(ConfigurationError, match=r"Environment: store_url is .*workflows go as workflows="):
        Environment(registry)


async def test_two_environments_do_not_see_each_other(registry):
    @workflow(registry=registry)
    async def one(ctx) -> int:
        return 1

    async with Environment(workflows=registry) as env, Environment(workflows=registry) as other:
        await env.client.submit("one", run_id="same")
        await asyncio.gather(env.settle(), other.settle())
        assert len(await env.client.runs()) == 1
        assert len(await other.client.runs()) == 0


async def test_to_a_store_a_wall_that_steps_forward_is_time_that_has_passed(registry):
    starts: list[float] = []

    @workflow(registry=registry)
    async def late(ctx) -> None:
        starts.append(env.now)

    async with Environment(workflows=registry) as env:
        await env.client.submit("late", delay=10)
        env.clock.step_wall(7)
        await env.advance(20)
    assert starts == [3.0]


async def test_a_wall_that_was_stepped_back_and_is_put_right_has_ticks_at_their_times(registry):
    ticks: list[float] = []

    @workflow(registry=registry, schedule=Every(3600))
    async def hourly(ctx) -> None:
        ticks.append(env.now)

    start = datetime(2026, 5, 1, 0, 30, tzinfo=UTC)
    async with Environment(workflows=registry, start=start) as env:
        env.clock.step_wall(-86_400)
        await env.advance(3660)
        env.clock.step_wall(86_400)
        await env.advance(3600)
    assert ticks == [3660, 5400]


async def test_a_wall_that_is_stepped_past_what_a_worker_waits_for_has_it_start_at_once(registry):
    starts: list[float] = []

    @workflow(registry=registry)
    async def late(ctx) -> None:
        starts.append(env.now)

    async with Environment(workflows=registry) as env:
        await env.client.submit("late", delay=10)
        await env.settle()
        env.clock.step_wall(7)
        await env.settle()
        await env.advance(20)
    assert starts == [3.0]
