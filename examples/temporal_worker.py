"""A worker of the official Temporal SDK under pyrula's limiters, changed while it runs.

    pip install 'pyrula-workflows[temporal]'
    temporal server start-dev
    python examples/temporal_worker.py

TEMPORAL_ADDRESS names another server.
"""

import asyncio
import os
import sys
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from pyrula.temporal import PollRate, WorkerLimiter


class Together:
    """How many charges run at once, now and at most."""

    now = most = 0


@activity.defn
async def charge(order: int) -> int:
    """Stands for a call that may not be made too often at once."""
    Together.now += 1
    Together.most = max(Together.most, Together.now)
    await asyncio.sleep(0.1)
    Together.now -= 1
    return order


@workflow.defn
class Checkout:
    """Charges `n` orders, all at once as far as the workflow knows."""

    @workflow.run
    async def run(self, n: int) -> int:
        charges = (
            workflow.execute_activity(charge, order, start_to_close_timeout=timedelta(seconds=30))
            for order in range(n)
        )
        return len(await asyncio.gather(*charges))


async def main() -> None:
    """Two at once, then no limit."""
    client = await Client.connect(os.environ.get("TEMPORAL_ADDRESS", "localhost:7233"))
    limiter = WorkerLimiter(
        "worker_1",
        "cluster_1",
        limits={
            "os": {"mem": 99},
            "cluster": {"workflow": (10, 100)},
            "worker": {"workflow": (5, 50), "activity_regular": (2, None)},
        },
        task_poller_limiter=PollRate(limit=600, time_window=60),
    )
    options = limiter.worker_options()
    async with Worker(client, task_queue="checkout", workflows=[Checkout], activities=[charge], **options):
        for step in ("two at once", "no limit"):
            Together.most = 0
            run_id = f"checkout-{os.getpid()}-{step.replace(' ', '-')}"
            await client.execute_workflow(Checkout.run, 6, id=run_id, task_queue="checkout")
            print(f"{step}: at most {Together.most} ran together")
            limiter.set_limiter_config(limits={}, task_poller_limiter=None)
        print(limiter.stats().frequency)
    limiter.close()


if __name__ == "__main__":
    asyncio.run(main())
    sys.stdout.flush()
    os._exit(0)  # the SDK's native threads may abort a program that ends right after its worker
