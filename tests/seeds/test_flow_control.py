"""The seed of flow control, sentence by sentence; flow_control_table.py says which test proves which."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from pyrula.policies.stamp import Stamped, stamp_event, stamp_run
from pyrula.workflows import (
    Collect,
    ConfigurationError,
    Debounce,
    Every,
    Fairness,
    KafkaStream,
    Limit,
    Rate,
    Registry,
    Workflow,
    workflow,
)
from tests.cases.scene import Scene, assert_times


def declared(**policies: Any) -> Workflow[..., Any]:
    """A workflow of three params, registered nowhere else."""

    @workflow(name="w", registry=Registry(), **policies)
    async def w(ctx: Any, a: Any = None, b: Any = None, c: Any = None) -> None: ...

    return w


# -- declared on the workflow, enforced at the claim


async def test_the_store_enforces_at_the_claim_over_all_workers(scene: Scene) -> None:
    scene.declare(concurrency=Limit("k", 2), rate_limit=Rate("k", 5, 10))
    for key in ("acme", "globex"):
        await scene.submit(6, k=key, seconds=10)
    before = {(gate.kind, gate.key): gate for gate in await scene.client.gates()}
    assert all(gate.in_use == 0 and gate.tokens in (None, 10) for gate in before.values())
    for number in range(3):
        await scene.work(worker_id=f"w{number}")
    assert scene.active == {"acme": 2, "globex": 2}
    await scene.reach(60)
    assert scene.peaks == {"acme": 2, "globex": 2}
    assert len(scene.ends) == 12


async def test_at_most_two_runs_per_tenant_execute_at_once(scene: Scene) -> None:
    scene.declare(concurrency=Limit("k", max=2))
    await scene.work()
    await scene.submit(5, k="acme", seconds=3)
    await scene.submit(1, k="globex", seconds=3)
    await scene.reach(20)
    assert_times(scene.times("acme"), [0, 0, 3, 3, 6])
    assert_times(scene.times("globex"), [0])
    assert scene.peaks["acme"] == 2


async def test_each_tenant_starts_at_most_five_per_second_in_bursts_of_ten(scene: Scene) -> None:
    scene.declare(rate_limit=Rate("k", per_second=5, burst=10))
    await scene.work()
    await scene.submit(20, k="acme")
    await scene.submit(3, k="globex")
    await scene.reach(3)
    assert_times(scene.times("acme"), [0] * 10 + [0.2 * n for n in range(1, 11)])
    assert_times(scene.times("globex"), [0] * 3)


async def test_a_run_over_the_limit_stays_queued_until_a_slot_frees_up(scene: Scene) -> None:
    scene.declare(concurrency=Limit("k", max=1))
    await scene.work()
    first, second = await scene.submit(2, k="acme", seconds=86_400)
    other = await scene.one(k="globex")
    await scene.reach(86_000)
    assert await scene.states([first, second, other]) == ["executing", "queued", "completed"]
    await scene.reach(86_400)
    assert await scene.states([first, second]) == ["completed", "executing"]
    assert_times(scene.started(second), [86_400])


async def test_a_run_over_the_rate_stays_queued_until_a_token_frees_up(scene: Scene) -> None:
    scene.declare(rate_limit=Rate("k", per_second=1 / 3600))
    await scene.work()
    first, second = await scene.submit(2, k="acme")
    other = await scene.one(k="globex")
    await scene.reach(3599)
    assert await scene.states([first, second, other]) == ["completed", "queued", "completed"]
    await scene.reach(3600)
    assert_times(scene.started(second), [3600])
    assert (await scene.client.get(second)).attempt == 1


# -- the table of policies


def test_policies_take_the_arguments_of_the_table() -> None:
    positional = {
        policy.__name__: [
            parameter.name
            if parameter.default is parameter.empty
            else f"{parameter.name}={parameter.default}"
            for parameter in inspect.signature(policy).parameters.values()
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]
        for policy in (Limit, Rate, Collect, Debounce)
    }
    assert positional == {
        "Limit": ["key", "max"],
        "Rate": ["key", "per_second", "burst=None"],
        "Collect": ["key", "max_events", "window_seconds"],
        "Debounce": ["key", "window_seconds"],
    }


async def test_the_burst_defaults_to_per_second_rounded_up(scene: Scene) -> None:
    scene.declare(rate_limit=Rate("k", per_second=2.5))
    await scene.work()
    await scene.submit(5, k="acme")
    await scene.submit(1, k="globex")
    await scene.reach(2)
    assert_times(scene.times("acme"), [0, 0, 0, 0.4, 0.8])
    assert_times(scene.times("globex"), [0])


async def test_collect_starts_one_run_at_max_events(scene: Scene) -> None:
    scene.declare(trigger=Collect("k", max_events=3, window_seconds=60))
    await scene.work()
    for n in range(7):
        await scene.client.trigger("w", {"k": "u1", "n": n})
    await scene.client.trigger("w", {"k": "u2", "n": 0})
    await scene.env.settle()
    assert [(start.key, start.n) for start in scene.starts] == [("u1", [0, 1, 2]), ("u1", [3, 4, 5])]


async def test_collect_starts_one_run_after_its_window(scene: Scene) -> None:
    scene.declare(trigger=Collect("k", max_events=50, window_seconds=60))
    await scene.work()
    for n in range(2):
        await scene.client.trigger("w", {"k": "u1", "n": n})
        await scene.reach(30 * (n + 1))
    await scene.client.trigger("w", {"k": "u2", "n": 0})
    await scene.reach(200)
    assert [(start.at, start.key, start.n) for start in scene.starts] == [
        (60, "u1", [0, 1]),
        (120, "u2", [0]),
    ]


async def test_debounce_starts_one_run_once_events_have_been_quiet(scene: Scene) -> None:
    scene.declare(trigger=Debounce("k", window_seconds=5))
    await scene.work()
    for n in range(4):
        await scene.client.trigger("w", {"k": "d1", "n": n})
        if n == 0:
            await scene.client.trigger("w", {"k": "d2", "n": 0})
        await scene.reach(4 * (n + 1))
    await scene.reach(60)
    assert [(start.at, start.key, start.n) for start in scene.starts] == [
        (5, "d2", [0]),
        (17, "d1", [0, 1, 2, 3]),
    ]


# -- keys


async def test_a_computed_key_is_a_key(scene: Scene) -> None:
    @workflow(registry=scene.registry, concurrency=Limit(key=lambda p: f"{p['org']}:{p['region']}", max=1))
    async def computed(ctx: Any, org: str, region: str) -> None:
        with scene.seat(ctx, f"{org}:{region}"):
            await scene.env.sleep(1)

    await scene.work()
    for region in ("eu", "eu", "us"):
        await scene.client.submit("computed", {"org": "acme", "region": region})
    await scene.reach(5)
    assert_times(scene.times("acme:eu"), [0, 1])
    assert_times(scene.times("acme:us"), [0])


async def test_runs_without_the_parameter_share_one_bucket(scene: Scene) -> None:
    scene.declare(concurrency=Limit("k", max=1))
    await scene.work()
    many = [{"seconds": 1}, {"k": None, "seconds": 1}, {"k": "", "seconds": 1}, {"k": "acme", "seconds": 1}]
    ids = await scene.client.submit_many("w", many)
    await scene.reach(5)
    assert_times(scene.times(""), [0, 1, 2])
    assert_times(scene.times("acme"), [0])
    assert [(await scene.client.get(each)).keys["w.limit"] for each in ids] == ["", "", "", "acme"]


def test_runs_that_share_a_key_land_on_the_same_shard() -> None:
    by_key = declared(concurrency=Limit("a", 2), rate_limit=Rate("a", 5))
    mixed = declared(concurrency=Limit("a", 2), rate_limit=Rate("b", 5))
    shared = declared(concurrency=(Limit("a", 2), Limit(None, 9, shared="api")))
    free = declared()

    def route(which: Workflow[..., Any], **params: Any) -> str | None:
        return stamp_run(which, params).route

    assert (
        route(by_key, a="acme", b="x") == route(by_key, a="acme", b="y") != route(by_key, a="globex", b="x")
    )
    assert route(mixed, a="acme", b="x") == route(mixed, a="globex", b="x")  # all its gates are together
    assert route(shared, a="acme") == route(shared, a="globex") == "api"
    assert route(free, a="acme") is None  # nothing to count: by run id


async def test_tenants_with_waiting_runs_take_turns(scene: Scene) -> None:
    scene.declare(concurrency=Limit(None, max=1), fairness=Fairness("k"))
    await scene.submit(50, k="acme", seconds=1)
    await scene.submit(2, k="globex", seconds=1)
    await scene.work()
    await scene.reach(20)
    assert [start.key for start in scene.starts][:4].count("globex") == 2  # not behind 50 of the other
    assert len(scene.times("acme")) == 19


# -- stamping


async def test_the_policy_is_stamped_whichever_path_submits(scene: Scene) -> None:
    limit, rate = Limit("k", max=1), Rate("k", per_second=1, burst=1)

    async def parent(ctx: Any, k: str = "k") -> str:
        return await ctx.start_child("w", {"k": k})

    scene.declare(concurrency=limit, rate_limit=rate, schedule=Every(3600, params={"k": "from a schedule"}))
    scene.declare("parent", body=parent)
    scene.declare(
        "batch", trigger=Collect("k", 1, 60), concurrency=Limit("key", 1), rate_limit=Rate("key", 1, 1)
    )
    by_client = await scene.client.submit("w", {"k": "from a client"})
    by_child = await scene.client.submit("parent", {"k": "from a child"})
    by_trigger = await scene.client.trigger("batch", {"k": "from a trigger"})
    await scene.work()
    await scene.reach(3600)
    submitted = {
        "from a client": by_client,
        "from a child": await scene.client.result(by_child),
        "from a trigger": by_trigger,
        "from a schedule": next(r.run_id for r in await scene.client.runs("w") if "@" in r.run_id),
    }
    for key, run_id in submitted.items():
        run = await scene.client.get(run_id)
        assert run.keys == {f"{run.workflow}.limit": key, f"{run.workflow}.rate": key}
        assert len(scene.times(key)) == 1


async def test_changing_the_decorator_affects_new_runs_and_not_queued_ones(scene: Scene) -> None:
    scene.declare(concurrency=Limit("k", max=1))
    old = await scene.submit(2, k="acme", seconds=10)
    await scene.redeploy(concurrency=Limit("k", max=3))
    new = await scene.submit(2, k="globex", seconds=10)
    await scene.reach(5)
    assert await scene.states([*old, *new]) == ["executing", "queued", "executing", "executing"]


# -- batches


async def test_the_run_of_a_batch_receives_key_events_and_count(scene: Scene) -> None:
    received: list[tuple[str, list[dict[str, Any]], int]] = []

    async def body(ctx: Any, key: str, events: list[dict[str, Any]], count: int) -> None:
        received.append((key, events, count))

    scene.declare(body=body, trigger=Collect("k", max_events=2, window_seconds=60))
    await scene.work()
    events = [{"k": "u1", "n": 1}, {"k": "u2", "n": 2}, {"k": "u1", "n": 3}]
    await scene.client.trigger_many("w", events)
    await scene.reach(60)
    assert received == [("u1", [events[0], events[2]], 2), ("u2", [events[1]], 1)]


async def test_trigger_answers_the_run_id_only_to_the_event_that_completes_a_batch(scene: Scene) -> None:
    scene.declare("collected", trigger=Collect("k", max_events=2, window_seconds=60))
    scene.declare("debounced", trigger=Debounce("k", window_seconds=5))
    await scene.work()
    answers = [await scene.client.trigger("collected", {"k": key}) for key in ("u1", "u2", "u1")]
    assert answers[:2] == [None, None]
    assert answers[2] is not None
    assert (await scene.client.get(answers[2])).workflow == "collected"
    assert [await scene.client.trigger("debounced", {"k": "u1"}) for _ in range(3)] == [None] * 3


async def test_time_based_fires_are_submitted_by_the_worker(scene: Scene) -> None:
    scene.declare("collected", trigger=Collect("k", max_events=9, window_seconds=60))
    scene.declare("debounced", trigger=Debounce("k", window_seconds=5))
    for name in ("collected", "debounced"):
        await scene.client.trigger_many(name, [{"k": "u1"}, {"k": "u2"}])
    await scene.reach(100)
    assert list(await scene.client.runs()) == []
    await scene.work()
    assert sorted(run.workflow for run in await scene.client.runs()) == ["collected"] * 2 + ["debounced"] * 2
    assert_times(scene.times("u1"), [100, 100])


async def test_a_triggered_workflow_takes_concurrency_and_rate_limit(scene: Scene) -> None:
    scene.declare(
        trigger=Collect("k", max_events=1, window_seconds=60),
        concurrency=Limit("key", max=1),
        rate_limit=Rate("key", per_second=0.5, burst=1),
    )
    await scene.work()
    await scene.client.trigger_many("w", [{"k": "u1"}, {"k": "u1"}, {"k": "u2"}])
    await scene.reach(10)
    assert_times(scene.times("u1"), [0, 2])
    assert_times(scene.times("u2"), [0])


def test_gates_of_a_triggered_workflow_are_keyed_on_the_batch_key() -> None:
    @workflow(name="w", registry=Registry(), trigger=Collect("user_id", 50, 60), concurrency=Limit("key", 2))
    async def w(ctx: Any, key: str, events: list[Any], count: int) -> None: ...

    def stamped(user: str) -> Stamped:
        return stamp_event(w, {"user_id": user, "key": "of the event, and of no matter"}).stamped

    assert stamped("u1").keys == ("u1",)
    assert stamped("u2").keys == ("u2",)
    with pytest.warns(UserWarning, match="batch key"):

        @workflow(
            name="v", registry=Registry(), trigger=Collect("user_id", 50, 60), concurrency=Limit("user_id", 2)
        )
        async def v(ctx: Any, key: str, events: list[Any], count: int) -> None: ...

    assert stamp_event(v, {"user_id": "u1"}).stamped.keys == ("",)


# -- streams


@pytest.mark.parametrize(
    "policy",
    [
        {"concurrency": Limit("record", 1)},
        {"rate_limit": Rate("record", 1)},
        {"trigger": Collect("record", 1, 1)},
        {"trigger": Debounce("record", 1)},
    ],
)
def test_a_kafka_bound_workflow_takes_no_store_policy(policy: dict[str, Any]) -> None:
    stream = KafkaStream(topic="orders", group="orders-sync", servers="localhost:9092", max_concurrency=4)

    async def orders(ctx: Any, record: dict[str, Any]) -> None: ...

    with pytest.raises(ConfigurationError, match="max_concurrency and the partition count"):
        workflow(registry=Registry(), stream=stream, **policy)(orders)
    bound = workflow(registry=Registry(), stream=stream)(orders)
    assert bound.stream is not None
    assert bound.stream.max_concurrency == 4
    assert bound.gates == ()
