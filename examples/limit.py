"""Limit: at most two runs of a tenant execute at once. In virtual time: it takes no time to run."""

import asyncio

from pyrula.testing import Environment
from pyrula.workflows import Context, Limit, workflow

env = Environment()  # a store, a client, a worker and a clock that jumps


@workflow(concurrency=Limit(key="tenant_id", max=2))
async def sync_account(ctx: Context, tenant_id: str, account: str) -> None:
    print(f"{env.now:3.0f} s  {account} begins")
    await env.sleep(3)  # the work (ctx.sleep would park the run, and give its slot back)


async def main() -> None:
    async with env:
        for tenant, account in [("acme", "a1"), ("acme", "a2"), ("acme", "a3"), ("globex", "g1")]:
            params = {"tenant_id": tenant, "account": account}
            await env.client.submit("sync_account", params, run_id=account)
        await env.settle()  # a1, a2 and g1 begin at 0 s
        print((await env.client.why("a3"))["text"])
        await env.advance(10)  # a3 begins at 3 s


asyncio.run(main())
