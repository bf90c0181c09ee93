"""Retry and RetryAfter: an attempt that fails is made again; one that is told to wait costs none."""

import asyncio

from pyrula.testing import Environment
from pyrula.workflows import Context, Rate, Retry, RetryAfter, workflow

env = Environment()
answers = ["timeout", "timeout", "429", "200"]


@workflow(
    rate_limit=Rate(key="tenant_id", per_second=10),
    retry=Retry(max_attempts=3, initial_seconds=1, factor=2, jitter=0),
)
async def send(ctx: Context, tenant_id: str) -> str:
    ticket = await ctx.step(reserve)  # recorded: no attempt does it again
    answer = answers.pop(0)
    print(f"{env.now:3.0f} s  attempt {ctx.attempt}, {ticket}: {answer}")
    if answer == "429":
        raise RetryAfter(30)  # closes the rate gate of this tenant for 30 s; no attempt is spent
    if answer != "200":
        raise ConnectionError(answer)
    return ticket


async def reserve() -> str:
    print("     a ticket is reserved")
    return "ticket 7"


async def main() -> None:
    async with env:
        print(await env.until(env.client.execute("send", {"tenant_id": "acme"})))


asyncio.run(main())
