"""A shop: orders with children, an event, a limit shared by workflows, held slots, digests, and steering."""

import asyncio
from dataclasses import dataclass
from typing import Any

from pyrula.testing import Environment
from pyrula.workflows import Collect, Context, Fairness, Limit, Rate, Retry, workflow

env = Environment()
BANK = Limit(key=None, max=2, shared="bank")  # one gate, whoever charges or refunds


@dataclass
class Item:
    name: str
    cents: int


@workflow(
    concurrency=Limit(key="customer", max=1, hold="run"),  # one order at a time, also while it waits
    fairness=Fairness(key="customer"),
    retry=Retry(max_attempts=3),
    timeout=60,
)
async def order(ctx: Context, customer: str, items: list[Item]) -> str:
    stock = await asyncio.gather(*(ctx.step(reserve, item.name) for item in items))
    payment = await ctx.run_child(
        "charge", {"customer": customer, "cents": sum(item.cents for item in items)}
    )
    try:
        parcel = await ctx.wait_for_event("packed", timeout=86_400)
    except TimeoutError:
        await ctx.run_child("refund", {"payment": payment})
        return f"{customer}: refunded"
    ctx.log.info("parcel %s holds %s", parcel, stock)
    return f"{customer}: {payment}, parcel {parcel}"


@workflow(concurrency=BANK, rate_limit=Rate(key="customer", per_second=1 / 10))
async def charge(ctx: Context, customer: str, cents: int) -> str:
    return await ctx.step(call_bank, customer, cents, retry=Retry(max_attempts=5, initial_seconds=0.2))


@workflow(concurrency=BANK)
async def refund(ctx: Context, payment: str) -> None:
    await ctx.step(call_bank, payment, 0)


@workflow(trigger=Collect(key="customer", max_events=10, window_seconds=300), priority=4)
async def newsletter(ctx: Context, key: str, events: list[dict[str, Any]], count: int) -> int:
    return count


def reserve(name: str) -> str:  # a plain function: it runs in a thread
    return f"1 {name}"


async def call_bank(what: str, cents: int) -> str:
    return f"{what} paid {cents}"


async def main() -> None:
    async with env:
        client = env.client
        tea = {"customer": "ann", "items": [{"name": "tea", "cents": 450}, {"name": "cup", "cents": 900}]}
        first = await client.submit("order", tea)
        second = await client.submit("order", tea)
        await env.settle()
        print((await client.get(first)).state, (await client.why(second))["text"])
        await client.send_event(first, "packed", "P1")
        print(await env.until(client.result(first)))

        await client.pause("bank", until=3600)  # the bank is down: nobody tries
        await env.advance(60)
        print((await client.get(second)).state, [gate.queued for gate in await client.gates("bank")])
        print(await env.until(client.result(second)))  # nobody packs it for a day

        await client.trigger("newsletter", {"customer": "ann", "viewed": "teapot"})
        batch = await client.flush("newsletter", "ann")
        assert batch is not None
        print(await env.until(client.result(batch)))
        print(await env.store.check())  # no counter differs from its slots and leases


asyncio.run(main())
