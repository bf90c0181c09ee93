"""Rate: bursts of ten, then five starts a second, for each tenant. In virtual time."""

import asyncio
from collections import Counter

from pyrula.testing import Environment
from pyrula.workflows import Context, Rate, workflow

env = Environment()
starts: Counter[float] = Counter()


@workflow(rate_limit=Rate(key="tenant_id", per_second=5, burst=10))
async def call_api(ctx: Context, tenant_id: str) -> None:
    starts[round(env.now, 3)] += 1


async def main() -> None:
    async with env:
        await env.client.submit_many("call_api", [{"tenant_id": "acme"}] * 13)
        await env.advance(60)
        (gate,) = await env.client.gates("call_api.rate")
        print(dict(starts))  # {0.0: 10, 0.2: 1, 0.4: 1, 0.6: 1}
        print(f"{gate.tokens} of {gate.burst} tokens after a minute")  # the bucket is full again


asyncio.run(main())
