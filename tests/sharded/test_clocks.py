"""Each shard has a time of its own; what a run waits for is due by that of its shard."""

from __future__ import annotations

from typing import Any

from pyrula.clock import SECOND
from pyrula.policies import Limit
from pyrula.testing.environment import Environment
from pyrula.workflows.workflow import Registry, workflow
from tests.sharded.places import SHARDS, key_on

HOUR = 3600 * SECOND


def _ahead(tx: Any) -> None:
    """An hour is added, as when the wall clock had been set back an hour while only this shard was looked at."""
    tx.now += HOUR
    tx.run("outbox.took", 2, 0)


async def test_a_sleep_lasts_as_long_as_it_should_on_shards_whose_times_differ() -> None:
    registry, woken = Registry(), []

    @workflow(name="w", concurrency=Limit("k", max=2), registry=registry)
    async def w(ctx: Any, k: str) -> None:
        await ctx.sleep(10)
        woken.append((round(env.now, 2), k))

    async with Environment(["sqlite://"] * SHARDS, registry, worker=False) as env:
        sharded: Any = env.store._store  # type: ignore[attr-defined]  # Environment counts the calls of its store
        await env.client.submit("w", {"k": key_on(0)})  # opens the shards
        await sharded.shard(1).write(_ahead)
        times = [await sharded.shard(number).now() for number in range(SHARDS)]
        assert times[1] - times[0] >= HOUR
        await env.start_worker()
        for number in (1, 2):
            await env.client.submit("w", {"k": key_on(number)})
        await env.advance(30)
    assert sorted(woken) == sorted((10.0, key_on(number)) for number in range(SHARDS))
