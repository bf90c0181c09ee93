"""A shop on a busy night: every view has something to show. Made by the engine itself, in one process."""

from __future__ import annotations

import asyncio
from typing import Any

from pyrula.store.open import open_store
from pyrula.workflows import (
    Collect,
    Context,
    Cron,
    Debounce,
    Every,
    Limit,
    Rate,
    Registry,
    Retry,
    Worker,
    WorkflowClient,
    workflow,
)

registry = Registry()
_TENANTS = (
    "acme",
    "globex",
    "initech",
    "umbrella",
    "hooli",
    "stark",
    "wayne",
    "tyrell",
    "soylent",
    "cyberdyne",
)
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
RIGHT_TO_LEFT = "\u202e" + "txt.exe \u05d0\u05d1\u05d2 \u0627\u0644\u0639\u0631\u0628"


@workflow(
    registry=registry,
    concurrency=Limit(key="tenant_id", max=2),
    rate_limit=Rate(key="tenant_id", per_second=5, burst=10),
)
async def sync_account(ctx: Context, tenant_id: str, account: str, wait: bool = False) -> dict[str, Any]:
    customer = await ctx.step(_fetch, account, name="fetch customer")
    await ctx.step(_store, customer, name="store customer")
    if wait:
        await ctx.step(_hang, name="call the bank")
    return {"customer": customer, "tenant": tenant_id}


@workflow(
    registry=registry,
    concurrency=Limit(key=None, max=4, shared="openai"),
    retry=Retry(max_attempts=3, initial_seconds=600),
)
async def summarize(ctx: Context, text: str, wait: bool = False, fail: bool = False) -> int:
    if fail:
        raise ValueError(f"the provider answered 500 for {text!r}")
    if wait:
        await ctx.step(_hang, name="ask the model")
    return len(text)


@workflow(registry=registry, concurrency=Limit(key="warehouse", max=1, hold="run"))
async def fulfil(ctx: Context, warehouse: str, order: int) -> str:
    await ctx.step(_store, {"order": order}, name="reserve stock")
    paid = await ctx.wait_for_event("paid", timeout=86400)
    return f"{order} {paid}"


@workflow(registry=registry)
async def order(ctx: Context, number: int, fail: bool = False) -> list[Any]:
    await ctx.step(_store, {"number": number}, name="validate")
    await ctx.sleep(0.05)
    if fail:
        raise RuntimeError("payment gateway refused the card (code 51, insufficient funds)")
    done = [await ctx.run_child("ship", {"number": number, "part": part}) for part in range(3)]
    return [*done, await ctx.wait_for_event("delivered", timeout=172800)]


@workflow(registry=registry)
async def ship(ctx: Context, number: int, part: int) -> str:
    await ctx.step(_store, {"part": part}, name="label")
    return f"{number}/{part}"


@workflow(registry=registry, rate_limit=Rate(key="user", per_second=0.2, burst=1))
async def mail(ctx: Context, user: str) -> None:
    await ctx.step(_store, {"user": user}, name="send")


@workflow(registry=registry, trigger=Collect(key="user_id", max_events=50, window_seconds=3600))
async def digest(ctx: Context, key: str, events: list[dict[str, Any]], count: int) -> int:
    return count


@workflow(registry=registry, trigger=Debounce(key="document", window_seconds=900, max_wait_seconds=7200))
async def reindex(ctx: Context, key: str, events: list[dict[str, Any]], count: int) -> int:
    return count


@workflow(registry=registry, schedule=[Cron("0 9 * * 1-5", tz="Europe/Berlin"), Every(3600, params={})])
async def report(ctx: Context) -> None: ...


def _fetch(account: str) -> dict[str, str]:
    return {"id": account, "name": account.title()}


def _store(value: Any) -> Any:
    return value


async def _hang() -> None:
    await asyncio.Event().wait()


async def fill(client: WorkflowClient) -> dict[str, str]:
    """Submit the night's work; answers the run ids that tests and pictures look at."""
    told: dict[str, str] = {}
    for tenant in _TENANTS:
        await client.submit_many(
            "sync_account", [{"tenant_id": tenant, "account": f"a{n}"} for n in range(4)]
        )
    held = await client.submit_many(
        "sync_account", [{"tenant_id": "acme", "account": f"slow-{n}", "wait": True} for n in range(14)]
    )
    told["holder"], told["waiter"] = held[0], held[-1]
    for n, tenant in enumerate(_TENANTS[1:6]):
        await client.submit_many(
            "sync_account", [{"tenant_id": tenant, "account": f"b{k}", "wait": True} for k in range(3 + n)]
        )
    await client.submit_many(
        "summarize", [{"text": f"chapter {n}", "wait": True} for n in range(23)], priority=2
    )
    told["parent"] = await client.submit("order", {"number": 7001}, run_id="order:7001")
    told["failed"] = await client.submit("order", {"number": 7002, "fail": True}, run_id="order:7002")
    await client.submit_many("order", [{"number": 7003 + n, "fail": True} for n in range(4)])
    await client.submit_many("fulfil", [{"warehouse": "hamburg", "order": n} for n in range(5)])
    await client.submit_many("mail", [{"user": f"user-{n % 3}@example.org"} for n in range(9)])
    told["hostile"] = await client.submit("mail", {"user": HOSTILE})
    await client.submit("mail", {"user": RIGHT_TO_LEFT})
    told["delayed"] = await client.submit("ship", {"number": 1, "part": 1}, delay=3600)
    for n in range(31):
        await client.trigger("digest", {"user_id": f"u{n % 4}", "kind": "comment", "n": n})
    await client.trigger("digest", {"user_id": HOSTILE})
    for n in range(5):
        await client.trigger("reindex", {"document": f"doc-{n % 2}", "n": n})
    return told


async def go_on(client: WorkflowClient) -> None:
    """Keep submitting, so that something moves."""
    number = 0
    while True:
        number += 1
        for tenant in _TENANTS[6 : 6 + number % 4]:
            await client.submit_many(
                "sync_account", [{"tenant_id": tenant, "account": f"{number}"}] * (number % 7)
            )
        await client.submit("ship", {"number": number, "part": 0})
        await asyncio.sleep(0.4)


async def steer(client: WorkflowClient) -> None:
    """What the operators of the night have done so far."""
    await client.pause("mail.rate", "user-1@example.org", until=1800)
    await client.override_limit("sync_account.limit", "globex", max=3, expires_in=3600)


__all__ = ["HOSTILE", "RIGHT_TO_LEFT", "Worker", "fill", "open_store", "registry", "steer"]
