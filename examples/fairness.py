"""Fairness: who pays gets three turns for each one of the others, and nobody waits behind a backlog."""

import asyncio

from pyrula.testing import Environment
from pyrula.workflows import Context, Fairness, Limit, workflow

env = Environment()
order: list[str] = []


@workflow(
    concurrency=Limit(key=None, max=1),  # one machine for all
    fairness=Fairness(key="tenant_id", weight={"paying": 3}),  # 1 for those not named
)
async def render(ctx: Context, tenant_id: str) -> None:
    order.append(tenant_id)
    await env.sleep(1)


async def main() -> None:
    async with env:
        await env.client.submit_many("render", [{"tenant_id": "paying"}] * 100)
        await env.client.submit_many("render", [{"tenant_id": "free"}] * 100)
        await env.advance(4)
        await env.client.submit("render", {"tenant_id": "new"})
        await env.advance(16)
        print(" ".join(order))
        print({tenant: order.count(tenant) for tenant in sorted(set(order))})


asyncio.run(main())
