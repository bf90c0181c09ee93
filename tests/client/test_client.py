"""WorkflowClient, against a real store in memory; time is virtual."""

import warnings
from datetime import UTC, datetime, timedelta

import pytest

from pyrula.testing import Environment
from pyrula.workflows import (
    Collect,
    ConfigurationWarning,
    GateNotFound,
    InvalidParams,
    InvalidPayload,
    KeyNeedsCode,
    Limit,
    NotJson,
    PayloadTooLarge,
    Rate,
    Registry,
    Retry,
    RunCancelled,
    RunExpired,
    RunFailed,
    RunIdConflict,
    RunNotFound,
    WorkflowClient,
    WorkflowNotFound,
    workflow,
)

registry = Registry()


@workflow(registry=registry, concurrency=Limit(key="tenant", max=1))
async def work(ctx, tenant: str, seconds: float = 0) -> str:
    await ctx.sleep(seconds)
    return f"done for {tenant}"


@workflow(registry=registry)
async def fails(ctx, message: str) -> None:
    raise ValueError(message)


@workflow(registry=registry)
async def listens(ctx) -> object:
    return await ctx.wait_for_event("go")


@workflow(registry=registry, concurrency=Limit(key=lambda p: p["a"], max=1))
async def computed(ctx, a: str) -> None: ...


@workflow(registry=registry, trigger=Collect(key="user", max_events=2, window_seconds=60))
async def digest(ctx, key: str, events: list, count: int) -> int:
    return count


@pytest.fixture
async def env():
    async with Environment(workflows=registry) as made:
        yield made


async def nothing_stored(env):
    return len(await env.client.runs()) == 0


async def test_execute_answers_what_the_body_returned(env):
    assert await env.until(env.client.execute(work, {"tenant": "a"})) == "done for a"
    assert await env.until(env.client.execute("work", {"tenant": "a", "seconds": 5})) == "done for a"


async def test_a_failed_run_raises_with_what_it_ended_with(env):
    with pytest.raises(RunFailed, match="ValueError: no such account") as caught:
        await env.until(env.client.execute("fails", {"message": "no such account"}))
    assert caught.value.error["type"] == "ValueError"
    assert caught.value.run_id


async def test_a_wait_that_times_out_ends_no_run(env):
    run_id = await env.client.submit("work", {"tenant": "a", "seconds": 60})
    with pytest.raises(TimeoutError, match="still parked"):
        await env.until(env.client.result(run_id, timeout=10))
    assert env.now == 10.0
    assert await env.until(env.client.result(run_id, timeout=timedelta(minutes=5))) == "done for a"


async def test_a_run_that_has_ended_is_answered_however_short_the_wait(env):
    run_id = await env.client.submit("work", {"tenant": "a"})
    await env.until(env.client.result(run_id))
    assert await env.client.result(run_id, timeout=0) == "done for a"


async def test_a_result_of_an_unknown_run_is_not_waited_for(env):
    with pytest.raises(RunNotFound, match="nonesuch"):
        await env.client.result("nonesuch")


async def test_the_same_id_with_the_same_params_is_one_run(env):
    first = await env.client.submit("work", {"tenant": "a", "seconds": 1}, run_id="mine")
    assert await env.client.submit("work", {"seconds": 1, "tenant": "a"}, run_id="mine") == first == "mine"
    assert len(await env.client.runs()) == 1
    with pytest.raises(RunIdConflict, match="'mine'"):
        await env.client.submit("work", {"tenant": "b"}, run_id="mine")


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({}, InvalidParams, "tenant"),
        ({"tenant": "a", "colour": 1}, InvalidParams, "colour"),
        ({"tenant": "a", "seconds": "soon"}, InvalidParams, "seconds"),
        ({"tenant": {"when": datetime(2026, 1, 1, tzinfo=UTC)}}, NotJson, r"params\.tenant\.when"),
        ({"tenant": "a" * (1 << 20)}, PayloadTooLarge, "the cap is"),
        (["a"], NotJson, "params: list"),
    ],
)
async def test_bad_params_are_refused_at_the_call_and_nothing_is_stored(env, params, error, match):
    with pytest.raises(error, match=match):
        await env.client.submit("work", params)
    assert await nothing_stored(env)


async def test_one_bad_params_among_many_stores_none(env):
    with pytest.raises(InvalidParams, match=r"item \[2\] of 3: workflow 'work': .*'wrong'"):
        await env.client.submit_many("work", [{"tenant": "a"}, {"tenant": "b"}, {"wrong": 1}])
    with pytest.raises(NotJson, match=r"item \[1\] of 2: params\.tenant: set") as refused:
        await env.client.submit_many("work", [{"tenant": "a"}, {"tenant": {1}}])
    assert refused.value.path == "params.tenant"
    with pytest.raises(NotJson, match=r"item \[0\] of 2: params: int 3"):
        await env.client.submit_many("work", [3, {"tenant": "a"}])
    assert await nothing_stored(env)


async def test_many_runs_are_stored_in_their_order(env):
    run_ids = await env.client.submit_many("work", [{"tenant": name} for name in "abc"])
    assert [run.run_id for run in await env.client.runs()] == run_ids[::-1]
    assert await env.client.submit_many("work", []) == []


async def test_an_unknown_workflow_is_named(env):
    with pytest.raises(WorkflowNotFound, match=r"'wrok'.*'work'"):
        await env.client.submit("wrok", {"tenant": "a"})


async def test_a_workflow_that_is_not_imported_is_submitted_by_what_a_worker_registered(env):
    stranger = WorkflowClient(env.store, Registry())
    run_id = await stranger.submit("work", {"tenant": "a", "seconds": 1})
    assert (await env.client.get(run_id)).keys == {"work.limit": "a"}
    assert await env.until(stranger.result(run_id)) == "done for a"
    with pytest.raises(KeyNeedsCode, match="import the module"):
        await stranger.submit("computed", {"a": "x"})


async def test_a_delayed_run_starts_when_it_is_due(env):
    soon = await env.client.submit("work", {"tenant": "a"}, delay=60)
    at = env.clock.today + timedelta(seconds=90)
    later = await env.client.submit("work", {"tenant": "b"}, run_at=at)
    await env.advance(59)
    assert {run.state for run in await env.client.runs()} == {"queued"}
    await env.advance(1)
    assert (await env.client.get(soon)).state == "completed"
    assert (await env.client.get(later)).state == "queued"
    await env.advance(30)
    assert (await env.client.get(later)).started_at == at


async def test_a_run_expires_if_it_has_not_started_in_time(env):
    await env.client.submit("work", {"tenant": "a", "seconds": 0})
    await env.client.pause("work.limit")
    run_id = await env.client.submit("work", {"tenant": "a"}, expires_in=5)
    with pytest.raises(RunExpired, match="expires_in"):
        await env.until(env.client.result(run_id))
    assert env.now == 5.0


async def test_a_cancelled_run_raises_to_who_waits_for_it(env):
    run_id = await env.client.submit("work", {"tenant": "a", "seconds": 60})
    await env.settle()
    assert await env.client.cancel(run_id) is True
    with pytest.raises(RunCancelled):
        await env.client.result(run_id)
    assert await env.client.cancel(run_id) is False
    with pytest.raises(RunNotFound):
        await env.client.cancel("nonesuch")
    assert await env.client.cancel_many([run_id, "nonesuch"]) == [False, False]


async def test_retry_takes_up_what_failed_and_nothing_else(env):
    run_id = await env.client.submit("fails", {"message": "x"})
    await env.settle()
    assert await env.client.retry(run_id) is True
    await env.settle()
    assert (await env.client.get(run_id)).attempt == 2
    done = await env.client.submit("work", {"tenant": "a"})
    await env.settle()
    assert await env.client.retry(done) is False
    with pytest.raises(RunNotFound):
        await env.client.retry("nonesuch")


async def test_an_event_reaches_the_run_that_waits_for_it_and_counts_once(env):
    run_id = await env.client.submit("listens")
    await env.settle()
    await env.client.send_event(run_id, "go", {"n": 1}, event_id="e1")
    assert await env.client.result(run_id) == {"n": 1}
    with pytest.raises(RunNotFound, match="completed"):
        await env.client.send_event(run_id, "go")
    with pytest.raises(RunNotFound):
        await env.client.send_event("nonesuch", "go")


async def test_trigger_answers_the_id_of_the_run_that_an_event_completes(env):
    assert await env.client.trigger("digest", {"user": "u1"}) is None
    run_id = await env.client.trigger("digest", {"user": "u1"})
    assert await env.client.result(run_id) == 2
    answers = await env.client.trigger_many("digest", [{"user": "u1"}, {"user": "u2"}, {"user": "u1"}])
    assert answers[:2] == [None, None] and answers[2] is not None
    (buffer,) = await env.client.buffers("digest")
    assert (buffer["key"], buffer["count"]) == ("u2", 1)
    assert await env.client.result(await env.client.flush("digest", "u2")) == 1
    assert await env.client.flush("digest", "u2") is None


async def test_an_event_id_given_twice_gets_the_first_answer(env):
    assert await env.client.trigger("digest", {"user": "u1"}, event_id="a") is None
    assert await env.client.trigger("digest", {"user": "u1"}, event_id="a") is None
    made = await env.client.trigger("digest", {"user": "u1"}, event_id="b")
    assert made is not None
    assert await env.client.trigger("digest", {"user": "u1"}, event_id="b") == made


async def test_runs_are_listed_newest_first_a_page_at_a_time(env):
    run_ids = await env.client.submit_many("work", [{"tenant": str(i)} for i in range(5)])
    first = await env.client.runs(limit=2)
    second = await env.client.runs(limit=2, cursor=first.cursor)
    third = await env.client.runs(limit=2, cursor=second.cursor)
    assert [run.run_id for run in [*first, *second, *third]] == run_ids[::-1]
    assert [run.run_id for run in await env.client.runs("work", key="3")] == [run_ids[3]]
    await env.settle()
    assert len(await env.client.runs(work, "completed")) == 5


async def test_gates_and_why_tell_what_holds_a_run_back(env):
    holder, other = await env.client.submit_many("fails", [{"message": "x"}] * 2)
    await env.client.pause("work.limit", "a", until=60)
    run_id = await env.client.submit("work", {"tenant": "a"})
    free = await env.client.submit("work", {"tenant": "b"})
    await env.settle()
    reasons = (await env.client.why(run_id))["reasons"]
    assert [reason["kind"] for reason in reasons] == ["pause"]
    assert (await env.client.get(free)).state == "completed"
    (gate,) = await env.client.gates("work.limit", "a")
    assert (gate.key, gate.queued, gate.max) == ("a", 1, 1)
    await env.client.resume("work.limit", "a")
    assert await env.until(env.client.result(run_id)) == "done for a"
    assert holder != other
    with pytest.raises(RunNotFound):
        await env.client.why("nonesuch")


async def test_a_mistyped_gate_is_refused(env):
    with pytest.raises(GateNotFound, match=r"work\.limit"):
        await env.client.pause("wrok.limit")


async def test_an_override_holds_at_once_and_until_it_is_cleared():
    active = most = 0
    mine = Registry()

    @workflow(registry=mine, concurrency=Limit(key="k", max=1), rate_limit=Rate(key="k", per_second=100))
    async def busy(ctx, k: str) -> None:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await env.sleep(10)
        active -= 1

    async with Environment(workflows=mine) as env:
        await env.client.submit_many("busy", [{"k": "a"}] * 9)
        await env.settle()
        assert active == 1
        await env.client.override_limit("busy.limit", max=3)
        await env.settle()
        assert active == 3
        await env.client.clear_override("busy.limit")
        await env.advance(10)
        assert active == 1 and most == 3
        await env.client.override_rate("busy.rate", "a", per_second=0.001, burst=1, expires_in=5)
        (gate,) = await env.client.gates("busy.rate", "a")
        assert gate.burst == 1


async def test_restamp_gives_queued_runs_the_current_declaration(env):
    older = Registry()

    @workflow(name="work", registry=older, concurrency=Limit(key="tenant", max=1))
    async def narrow(ctx, tenant: str, seconds: float = 0) -> None: ...

    newer = Registry()

    @workflow(name="work", registry=newer, concurrency=Limit(key="tenant", max=5))
    async def wide(ctx, tenant: str, seconds: float = 0) -> None: ...

    await env.client.pause("work.limit")
    await WorkflowClient(env.store, older).submit_many("work", [{"tenant": "a"}] * 3)
    assert await WorkflowClient(env.store, newer).restamp("work") == 3


async def test_a_naive_run_at_is_refused_with_the_reason(env):
    with pytest.raises(InvalidPayload, match="no time zone"):
        await env.client.submit("work", {"tenant": "a"}, run_at=datetime(2026, 1, 1))
    assert await nothing_stored(env)


async def test_a_thousand_waits_cost_one_read_per_nudge(env):
    import asyncio

    run_ids = await env.client.submit_many("work", [{"tenant": str(i), "seconds": 5} for i in range(300)])
    reads = 0
    results = env.store.results

    async def counted(ids):
        nonlocal reads
        reads += 1
        return await results(ids)

    waiting = asyncio.gather(*(env.client.result(run_id) for run_id in run_ids))
    await env.settle()
    env.store.results = counted
    assert len(await env.until(waiting)) == 300
    assert reads < 60


async def test_a_failed_attempt_is_told_while_it_backs_off():
    mine = Registry()

    @workflow(registry=mine, retry=Retry(max_attempts=2, initial_seconds=60, jitter=0))
    async def flaky(ctx) -> str:
        if ctx.attempt == 1:
            raise OSError("refused")
        return "ok"

    async with Environment(workflows=mine) as env:
        run_id = await env.client.submit("flaky")
        await env.settle()
        answer = await env.client.why(run_id)
        (reason,) = answer["reasons"]
        assert "its last attempt ended with OSError: 'refused'" in answer["text"]
        assert reason["backs_off"] and reason["error"]["message"] == "refused"
        assert await env.until(env.client.result(run_id)) == "ok"


async def test_an_event_without_the_key_of_its_trigger_draws_a_warning_whoever_knows_the_workflow():
    mine = Registry()

    @workflow(registry=mine, trigger=Collect("user_id", 5, 60))
    async def digest(ctx, key: str, events: list[dict], count: int) -> None: ...

    async with Environment(workflows=mine) as env:
        for client in (env.client, WorkflowClient(env.store, Registry())):
            with pytest.warns(
                ConfigurationWarning, match="'digest': an event has no 'user_id', the key of its"
            ):
                await client.trigger("digest", {"user": "u1"})
        (buffer,) = await env.client.buffers()
        assert (buffer["key"], buffer["count"]) == ("", 2)
        with warnings.catch_warnings(action="error"):
            await env.client.trigger("digest", {"user_id": None})
