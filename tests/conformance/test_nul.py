"""A NUL, which PostgreSQL keeps in no text: what is data is kept with it on every store, what is a name is refused."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pyrula.errors import InvalidPayload
from pyrula.store.protocol import Store
from pyrula.testing import Environment
from pyrula.workflows import Collect, Limit, Registry, RunFailed, WorkflowClient, workflow
from tests.conformance.hands import Hands

NUL = "a\0b"
registry = Registry()


@workflow(name="w", registry=registry, concurrency=Limit("k", 1))
async def work(ctx: Any, k: str) -> None:
    pass


@workflow(name="b", registry=registry, trigger=Collect(key="k", max_events=3, window_seconds=60))
async def batch(ctx: Any, key: str, events: list[Any], count: int) -> None:
    pass


async def test_params_keys_and_payloads_keep_theirs(hands: Hands) -> None:
    hands.declare("w", concurrency=Limit("k", 1))
    await hands.register()
    run_id = await hands.submit("w", "r", params={"k": NUL})
    other = await hands.submit("w", "s", params={"k": "a"})
    assert set(await hands.turn()) == {run_id, other}  # two keys, not one that ends at its NUL
    assert json.loads(hands.executing[run_id].params) == {"k": NUL}
    assert await hands.store.send_event(run_id, "e", json.dumps(NUL).encode())


@pytest.mark.parametrize("key", [NUL, "\0", "\ufffe", '\ufffe"a\\u0000b"', "a"])
async def test_a_buffer_keeps_the_key_of_its_events(hands: Hands, key: str) -> None:
    hands.declare("w", trigger=Collect(key="k", max_events=3, window_seconds=60))
    await hands.register()
    await hands.trigger("w", {"k": key, "n": 1})
    await hands.trigger("w", {"k": key + "!", "n": 1})
    assert {(buffer["key"], buffer["count"]) for buffer in await hands.store.buffers("w")} == {
        (key, 1),
        (key + "!", 1),
    }
    page = await hands.store.buffer_page("w", None, 10, 0)
    assert {row["key"] for row in page} == {key, key + "!"}
    assert await hands.trigger("w", {"k": key, "n": 2}) is None
    await hands.move(60)
    started = await hands.turn()
    batches = [json.loads(hands.executing[run_id].params) for run_id in started]
    assert sorted((found["key"], found["count"]) for found in batches) == sorted([(key, 2), (key + "!", 1)])


async def test_a_search_for_one_finds_nothing(store: Store) -> None:
    assert await store.gate_page(None, NUL, "waiting", 10, 0) == []
    assert await store.buffer_page(None, NUL, 10, 0) == []


CALLS: dict[str, Callable[[WorkflowClient], Awaitable[Any]]] = {
    "submit: run_id": lambda client: client.submit("w", {"k": "a"}, run_id=NUL),
    "trigger: event_id": lambda client: client.trigger("b", {"k": "a"}, event_id=NUL),
    "send_event: name": lambda client: client.send_event("r", NUL),
    "send_event: event_id": lambda client: client.send_event("r", "e", event_id=NUL),
    "send_event: run_id": lambda client: client.send_event(NUL, "e"),
    "run_id": lambda client: client.get(NUL),
    "result: run_id": lambda client: client.result(NUL),
    "cancel: run_id": lambda client: client.cancel(NUL),
    "why: run_id": lambda client: client.why(NUL),
    "gates: name": lambda client: client.gates(NUL),
    "workflow": lambda client: client.runs(NUL),
    "gate": lambda client: client.override_limit(NUL, max=1),
}


@pytest.mark.parametrize("what", CALLS)
async def test_a_name_and_an_id_are_refused_by_name_with_the_way_out(store: Store, what: str) -> None:
    client = WorkflowClient(store, registry)
    with pytest.raises(InvalidPayload) as refused:
        await CALLS[what](client)
    assert str(refused.value).startswith(f"{what} is 'a\\x00b'")
    assert "must be printable" in str(refused.value) or "such as %00" in str(refused.value)


ASKED: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "step": lambda ctx: ctx.step(_nothing, name=NUL),
    "wait_for_event": lambda ctx: ctx.wait_for_event(NUL),
    "run_child": lambda ctx: ctx.run_child(NUL),
    "start_child": lambda ctx: ctx.start_child(NUL),
    "run_id": lambda ctx: ctx.run_child("ends", run_id=NUL),
}


async def _nothing() -> None: ...


@pytest.mark.parametrize("call", ASKED)
async def test_a_name_in_a_body_fails_its_run_and_no_turn(store_url: str, call: str) -> None:
    mine = Registry()

    @workflow(registry=mine)
    async def asks(ctx: Any) -> None:
        await ASKED[call](ctx)

    @workflow(registry=mine)
    async def ends(ctx: Any) -> str:
        return NUL

    async with Environment(store_url, mine) as env:
        run_id = await env.client.submit("asks")
        assert await env.until(env.client.execute("ends")) == NUL
        with pytest.raises(RunFailed, match="InvalidPayload"):
            await env.client.result(run_id)
        assert await env.store.check() == []
