"""The examples of the seed of flow control, executed as they stand."""

from __future__ import annotations

import ast
import asyncio
import inspect
from typing import Any

import pytest

from pyrula.policies.stamp import stamp_run
from pyrula.testing import Environment
from pyrula.workflows import Limit, Rate, Workflow, default_registry, workflow
from tests.seeds.flow_control_table import SEED, examples

EXAMPLE_1, EXAMPLE_2, EXAMPLE_3 = examples(SEED.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever other tests have declared, and what these do, is out of the way."""
    monkeypatch.setattr(default_registry, "_workflows", {})


async def execute(example: str, **given: Any) -> dict[str, Any]:
    """Run an example as a module whose top level may await; answers its names."""
    names: dict[str, Any] = {"__name__": "example_of_the_seed", **given}
    code = compile(example, "flow_control.txt", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    made = eval(code, names)
    if asyncio.iscoroutine(made):
        await made
    return names


async def test_example_1_is_a_workflow_with_two_gates() -> None:
    sync_account = (await execute(EXAMPLE_1))["sync_account"]
    assert isinstance(sync_account, Workflow)
    assert sync_account.limits == (Limit(key="tenant_id", max=2),)
    assert sync_account.rates == (Rate(key="tenant_id", per_second=5, burst=10),)
    assert inspect.iscoroutinefunction(sync_account.fn)
    assert await sync_account(None, "acme", "a1") is None  # still the function it was


async def test_example_1_starts_ten_then_five_a_second(store_url: str) -> None:
    await execute(EXAMPLE_1)
    async with Environment(store_url) as env:
        tenants = ["acme"] * 12 + ["globex"]
        many = [{"tenant_id": tenant, "account": f"a{n}"} for n, tenant in enumerate(tenants)]
        ids = await env.client.submit_many("sync_account", many)
        begin = env.clock.today
        await env.advance(1)
        runs = [await env.client.get(run_id) for run_id in ids]
    assert {run.state for run in runs} == {"completed"}
    at = [(run.started_at - begin).total_seconds() for run in runs if run.started_at is not None]
    assert at == [*[0.0] * 10, 0.2, 0.4, 0.0]


async def test_example_2_keys_on_a_parameter_and_on_a_computed_value() -> None:
    lines = [ast.unparse(statement) for statement in ast.parse(EXAMPLE_2).body]
    assert EXAMPLE_2.count("Limit(") == len(lines) == 2
    by_name, computed = (eval(line, {"Limit": Limit}) for line in lines)

    @workflow(name="named", concurrency=by_name)
    async def named(ctx: Any, tenant_id: str) -> None: ...

    @workflow(name="calculated", concurrency=computed)
    async def calculated(ctx: Any, org: str, region: str) -> None: ...

    assert stamp_run(named, {"tenant_id": "acme"}).keys == ("acme",)
    assert stamp_run(calculated, {"org": "acme", "region": "eu"}).keys == ("acme:eu",)


async def test_example_3_buffers_the_event_until_the_batch_fires(store_url: str) -> None:
    async with Environment(store_url, worker=False) as env:
        names = await execute(EXAMPLE_3, store=env.store)
        client = names["client"]
        assert [buffer["count"] for buffer in await client.buffers("digest")] == [1]
        last = [await client.trigger("digest", {"user_id": "u1", "n": n}) for n in range(49)][-1]
        assert await client.trigger("digest", {"user_id": "u2"}) is None
        run = await client.get(last)
        assert (run.params["key"], run.params["count"]) == ("u1", 50)
        assert run.params["events"][0] == {"user_id": "u1", "kind": "comment"}
        await env.start_worker()
        assert (await client.get(last)).state == "completed"
