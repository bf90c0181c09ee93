"""@workflow: what it makes of a function, and what it refuses. (Seed: flow-control; field report 48.)"""

from __future__ import annotations

import functools
import importlib.util
import json
import warnings

import pytest

from pyrula.errors import ConfigurationError, ConfigurationWarning, WorkflowNotFound
from pyrula.kafka import KafkaStream
from pyrula.policies import Collect, Cron, Debounce, Every, Fairness, Limit, Rate, Retry
from pyrula.policies.stamp import stamp_by_declaration, stamp_event, stamp_run
from pyrula.workflows.workflow import ROUTES, Registry, Workflow, default_registry, workflow


@pytest.fixture
def registry():
    return Registry()


async def body(ctx, tenant_id: str = "", account: str = "") -> str:
    """Copies an account."""
    return f"{tenant_id}/{account}"


async def triggered(ctx, key: str, events: list[dict], count: int) -> None: ...


async def from_stream(ctx, record: dict) -> None: ...


STREAM = KafkaStream("orders", "orders-sync", "localhost:9092")


def refused(registry, fn=body, **policies) -> str:
    """The message with which a declaration is refused; nothing of it may be registered."""
    with pytest.raises(ConfigurationError) as error:
        workflow(registry=registry, **policies)(fn)
    assert isinstance(error.value, ValueError)
    assert error.value.code == "configuration"
    assert len(registry) == 0
    return str(error.value)


async def test_a_declared_workflow_is_still_the_function_it_was(registry):
    declared = workflow(registry=registry)(body)
    assert await declared(None, "t", account="a") == "t/a"
    assert isinstance(declared, Workflow)
    assert (declared.name, declared.__name__, declared.__doc__) == ("body", "body", "Copies an account.")
    assert declared.__wrapped__ is declared.fn is body
    assert registry.get("body") is declared


def test_the_example_of_the_seed(registry):
    @workflow(
        name="sync_account",
        concurrency=Limit(key="tenant_id", max=2),
        rate_limit=Rate(key="tenant_id", per_second=5, burst=10),
        registry=registry,
    )
    async def sync_account(ctx, tenant_id: str, account: str) -> None: ...

    assert sync_account.gates == ("sync_account.limit", "sync_account.rate")
    stamped = stamp_run(sync_account, {"tenant_id": "a", "account": "b"})
    assert [gate.number for gate in stamped.stamp.gates] == [2, (5, 1, 10)]


def test_without_arguments_it_takes_the_functions_name_and_the_default_registry():
    @workflow
    async def declared_without_arguments(ctx): ...

    assert default_registry.get("declared_without_arguments") is declared_without_arguments


@pytest.mark.parametrize(
    ("policies", "told"),
    [
        ({"concurrency": Limit("tenant_id", 0)}, "workflow 'body': Limit.max is 0;"),
        ({"concurrency": Limit("tenant_id", True)}, "Limit.max is True;"),
        ({"rate_limit": Rate("tenant_id", 0, 5)}, "Rate.per_second is 0;"),
        ({"rate_limit": Rate("tenant_id", float("nan"))}, "Rate.per_second is nan;"),
        ({"rate_limit": Rate("tenant_id", float("inf"))}, "Rate.per_second is inf;"),
        ({"rate_limit": Rate("tenant_id", 5, 0)}, "Rate.burst is 0;"),
        ({"trigger": Collect("k", -5, 10)}, "Collect.max_events is -5;"),
        ({"trigger": Collect("k", 5, 0)}, "Collect.window_seconds is 0;"),
        ({"trigger": Debounce("k", -1)}, "Debounce.window_seconds is -1;"),
        ({"trigger": Debounce("k", 5, max_wait_seconds=5)}, "Debounce.max_wait_seconds is 5;"),
        ({"fairness": Fairness("tenant_id", 0)}, "Fairness.weight is 0;"),
        ({"retry": Retry(0)}, "Retry.max_attempts is 0;"),
        ({"schedule": Cron("never")}, "Cron.expr is 'never';"),
        ({"schedule": [Every(5), Every(-1)]}, "Every.seconds is -1;"),
        ({"stream": KafkaStream("", "g", "s")}, "KafkaStream.topic is '';"),
        *(({"priority": value}, f"priority is {value!r};") for value in (0, 6, -1, True, 2.0, "1", None)),
        *(({"timeout": value}, f"timeout is {value!r};") for value in (0, -1, "1", True, float("nan"))),
        *(
            ({"concurrency": value}, f"concurrency is {value!r};")
            for value in (5, Rate("tenant_id", 1), "tenant_id")
        ),
        ({"concurrency": [Limit("tenant_id", 1), 5]}, "concurrency is 5;"),
        ({"rate_limit": Limit("tenant_id", 1)}, "rate_limit is Limit("),
        ({"trigger": Limit("tenant_id", 1)}, "trigger is Limit("),
        ({"fairness": "tenant_id"}, "fairness is 'tenant_id';"),
        ({"retry": 3}, "retry is 3;"),
        ({"schedule": "0 9 * * *"}, "schedule is '0 9 * * *';"),
        ({"stream": "orders"}, "stream is 'orders';"),
        ({"limit": Limit("tenant_id", 1)}, "limit is no argument of @workflow"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_bad_declaration_is_refused_at_decoration(registry, policies, told):
    message = refused(registry, **policies)
    assert "'body'" in message
    assert told in message


def _plain(ctx): ...


def _generator(ctx):
    yield


async def _async_generator(ctx):
    yield


@functools.wraps(body)
def _sync_wrapper(ctx, *args):
    return body(ctx, *args)


@pytest.mark.parametrize("fn", [_plain, _generator, _async_generator, _sync_wrapper, len, int])
def test_a_body_is_an_async_function(registry, fn):
    told = refused(registry, fn, name="w")
    assert "async def" in told
    assert ("without a `yield`" in told) is (fn is _async_generator)


async def _without_context(): ...
async def _only_keywords(*, ctx): ...
async def _positional(ctx, a, /): ...
async def _method(self, ctx): ...
async def _ctx_forgotten(tenant_id: str): ...
async def _ctx_last(events: list[dict], ctx): ...


@pytest.mark.parametrize(
    ("fn", "told"),
    [
        (_without_context, "ctx"),
        (_only_keywords, "ctx"),
        (_positional, "positional-only"),
        (_method, "is a method"),
        (_ctx_forgotten, "first parameter, 'tenant_id', is annotated as str, but it receives the context"),
        (_ctx_last, "first parameter, 'events', is annotated as list[dict]"),
    ],
)
def test_a_body_takes_a_context_and_named_parameters(registry, fn, told):
    assert told in refused(registry, fn, name="w")


@pytest.mark.parametrize("name", ["sync", "Sync2", "a.b-c_d", "_x", "7", "größe", "x" * 128])
def test_names_that_fit_a_url_are_allowed(registry, name):
    assert workflow(name=name, registry=registry)(body).name == name


@pytest.mark.parametrize(
    "name", ["", " ", "a/b", "a b", "a:b", ".a", "-a", "a\n", "a?", "x" * 129, 5, b"a", True, "a\0"]
)
def test_other_names_are_refused_with_what_is_allowed(registry, name):
    assert "letters, digits, '_', '-' and '.'" in refused(registry, name=name)


def test_a_name_without_its_keyword_is_answered_with_how_to_give_it():
    with pytest.raises(ConfigurationError, match=r"@workflow\(name='sync'\)"):
        workflow("sync")


@pytest.mark.parametrize("name", sorted(ROUTES))
def test_a_workflow_is_not_named_like_a_route(registry, name):
    message = refused(registry, name=name)
    assert f"name is {name!r}" in message
    assert "route" in message


def test_two_bodies_with_one_name_are_refused(registry):
    workflow(name="w", registry=registry)(body)
    with pytest.raises(
        ConfigurationError, match=r"'w': two bodies have this name, .*body and .*triggered"
    ) as error:
        workflow(name="w", registry=registry)(triggered)
    assert "another name" in str(error.value)
    assert registry.get("w").fn is body


def test_a_body_declared_twice_under_two_names_is_two_workflows(registry):
    one, other = (workflow(name=name, registry=registry)(body) for name in ("one", "other"))
    assert {each.name for each in registry} == {one.name, other.name} == {"one", "other"}


def test_a_reloaded_module_replaces_its_workflows(tmp_path, registry):
    source = tmp_path / "flows.py"
    source.write_text(
        "from pyrula.workflows.workflow import workflow\nfrom pyrula.policies import Limit\n"
        "def declare(registry, max):\n"
        "    @workflow(name='w', concurrency=Limit(None, max, shared='s'), registry=registry)\n"
        "    async def body(ctx): ...\n"
    )

    def load(name, number):
        spec = importlib.util.spec_from_file_location(name, source)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.declare(registry, number)

    for name, number in (("flows", 1), ("flows", 2), ("__main__", 3)):  # run as a script and imported as well
        load(name, number)
        assert registry.get("w").limits[0].max == number
    assert len(registry) == 1


def test_an_unknown_name_says_which_are_known(registry):
    workflow(name="known", registry=registry)(body)
    with pytest.raises(WorkflowNotFound, match=r"'lost'.*known.*import"):
        registry.get("lost")
    assert registry.find("lost") is None
    assert ("known" in registry, "lost" in registry) == (True, False)


# -- streams, triggers, schedules


@pytest.mark.parametrize(
    "policy",
    [
        {"concurrency": Limit(None, 1)},
        {"rate_limit": [Rate(None, 1)]},
        {"trigger": Collect(None, 5, 5)},
    ],
)
def test_a_kafka_bound_workflow_takes_no_flow_control(registry, policy):
    message = refused(registry, from_stream, stream=STREAM, **policy)
    assert next(iter(policy)) in message
    assert "max_concurrency" in message
    assert "partition" in message


def test_a_kafka_bound_workflow_declares_its_stream(registry):
    declared = workflow(stream=STREAM, retry=Retry(3), fairness=Fairness(None), registry=registry)(
        from_stream
    )
    assert declared.declaration()["stream"]["topic"] == "orders"


@pytest.mark.parametrize(
    ("fn", "policies", "told"),
    [
        (body, {"trigger": Collect("k", 5, 5)}, "takes no 'count', 'events', 'key'"),
        (body, {"stream": STREAM}, "takes no 'record'"),
        (triggered, {"schedule": Every(5)}, "'key', 'events', 'count' must be given"),
        (body, {"schedule": Cron("0 9 * * *", params={"tenant": "a"})}, "takes no 'tenant'"),
        (body, {"schedule": Every(5, params={"account": 7})}, "params.account: expected str, got int"),
    ],
)
def test_a_body_that_would_fail_every_run_is_refused(registry, fn, policies, told):
    assert told in refused(registry, fn, **policies)


def test_schedules_are_one_or_several(registry):
    declared = workflow(
        schedule=[Cron("0 9 * * *", params={"tenant_id": "a"}), Every(60)], registry=registry
    )(body)
    assert [each["params"] for each in declared.declaration()["schedules"]] == [{"tenant_id": "a"}, {}]


# -- keys that the body can never receive


@pytest.mark.parametrize(
    ("fn", "policies"),
    [
        (body, {"concurrency": Limit("tenant", 1)}),
        (body, {"rate_limit": [Rate("tenant_id", 1), Rate("tenant", 1)]}),
        (body, {"fairness": Fairness("ctx")}),
        (triggered, {"trigger": Collect("user_id", 5, 5), "concurrency": Limit("user_id", 1)}),
        (triggered, {"trigger": Collect("user_id", 5, 5), "concurrency": Limit("events", 1)}),
        (from_stream, {"stream": STREAM, "fairness": Fairness("tenant_id")}),
    ],
)
def test_a_key_that_the_body_can_never_receive_draws_a_warning_at_the_body(registry, fn, policies):
    with pytest.warns(ConfigurationWarning, match="share one bucket") as caught:
        workflow(registry=registry, **policies)(fn)
        workflow(fn, name="called", registry=registry, **policies)
    line = fn.__code__.co_firstlineno
    assert [(each.filename, each.lineno) for each in caught] == [(__file__, line)] * 2


async def _open(ctx, **params): ...


@pytest.mark.parametrize(
    ("fn", "policies"),
    [
        (body, {"concurrency": Limit("tenant_id", 1), "fairness": Fairness("account")}),
        (body, {"concurrency": Limit(None, 1), "rate_limit": Rate(lambda p: p["tenant"], 1)}),
        (_open, {"concurrency": Limit("anything", 1)}),
        (triggered, {"trigger": Debounce("user_id", 5), "concurrency": Limit("key", 1)}),
    ],
)
def test_other_keys_draw_none(registry, fn, policies):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        workflow(registry=registry, **policies)(fn)


# -- declarations in other processes


def test_a_declaration_is_json_by_which_others_submit(registry):
    declared = workflow(
        concurrency=Limit("tenant_id", 2), timeout=60, priority=2, schedule=Every(60), registry=registry
    )(body)
    declaration = json.loads(json.dumps(declared.declaration()))
    assert stamp_by_declaration(declaration, {"tenant_id": "a"}) == stamp_run(declared, {"tenant_id": "a"})
    assert declaration["parameters"] == [
        {"name": "tenant_id", "required": False},
        {"name": "account", "required": False},
    ]
    assert (declared.timeout_us, declared.priority) == (60_000_000, 2)


def test_an_event_is_stamped_by_its_workflow(registry):
    declared = workflow(trigger=Collect("user_id", 5, 60), registry=registry)(triggered)
    assert stamp_event(declared, {"user_id": "u1"}).key == "u1"
