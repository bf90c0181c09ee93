"""A shop's workflows behind HTTP: `pyrula serve examples.http_app --worker --store sqlite:///shop.db`, then /ui.

curl -d '{"tenant_id": "acme", "account": "a1"}' -H 'Content-Type: application/json' localhost:8787/sync_account
curl -d '{"user_id": "u1", "kind": "comment"}' -H 'Content-Type: application/json' localhost:8787/digest/events
"""

from __future__ import annotations

from typing import Any

from pyrula.workflows import Collect, Context, Debounce, Every, Limit, Rate, workflow


@workflow(
    concurrency=Limit(key="tenant_id", max=2),
    rate_limit=Rate(key="tenant_id", per_second=5, burst=10),
)
async def sync_account(ctx: Context, tenant_id: str, account: str, seconds: float = 1.0) -> dict[str, str]:
    """At most two at once for each tenant, and at most five starts a second."""
    await ctx.step(_fetch, account)
    await ctx.sleep(seconds)
    return {"account": account, "tenant": tenant_id}


@workflow(concurrency=Limit(key=None, max=4, shared="openai"))
async def summarize(ctx: Context, text: str) -> int:
    """All of them together use four slots of one provider."""
    return await ctx.step(_length, text)


@workflow(trigger=Collect(key="user_id", max_events=50, window_seconds=60))
async def digest(ctx: Context, key: str, events: list[dict[str, Any]], count: int) -> str:
    """One mail for up to fifty comments."""
    return f"{count} events for {key}"


@workflow(trigger=Debounce(key="document", window_seconds=5, max_wait_seconds=60))
async def reindex(ctx: Context, key: str, events: list[dict[str, Any]], count: int) -> str:
    """Once a document has been left alone for five seconds."""
    return f"{key} after {count} changes"


@workflow(schedule=Every(3600))
async def cleanup(ctx: Context) -> None:
    """Each hour, once, however many workers there are."""


async def _fetch(account: str) -> str:
    return account.upper()


def _length(text: str) -> int:
    return len(text)
