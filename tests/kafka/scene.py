"""What the tests of streams share: a store, workers that consume, and waiting for what they bring about."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Self

from pyrula.kafka import KafkaStream
from pyrula.kafka.stats import PartitionStats, StreamStats
from pyrula.workflows import Registry, Worker, WorkflowClient, open_store, workflow
from tests.kafka.broker import QUICK, Broker


class Scene:
    """A broker, a store and one workflow `orders` that is fed by a topic."""

    def __init__(self, broker: Broker, topic: str, partitions: int, *, store: str = "sqlite://") -> None:
        self.broker, self.topic, self.partitions = broker, topic, partitions
        self.group = f"{topic}-group"
        self.store = open_store(store)
        self.registry = Registry()
        self.client = WorkflowClient(self.store, self.registry)
        self.workers: list[Worker] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.store)
        return self

    async def __aexit__(self, *what: object) -> None:
        await asyncio.gather(*(worker.stop(0) for worker in self.workers))
        await self._stack.aclose()

    def declare(
        self, body: Any, *, servers: str | None = None, policies: dict[str, Any] | None = None, **more: Any
    ):
        stream = KafkaStream(
            self.topic, self.group, servers or self.broker.servers, **{"config": QUICK, **more}
        )
        return workflow(name="orders", registry=self.registry, stream=stream, **(policies or {}))(body)

    async def work(self, worker_id: str = "one", **more: Any) -> Worker:
        worker = Worker(self.store, self.registry, worker_id, **more)
        self.workers.append(worker)
        await self._stack.enter_async_context(worker)
        return worker

    def send(self, values: list[Any], *, key: Callable[[int], Any] = lambda n: None) -> None:
        """values[n] to partition n modulo their number, as JSON; bytes as they are."""
        self.broker.send(
            self.topic,
            [
                (n % self.partitions, key(n), value if isinstance(value, bytes) else json.dumps(value))
                for n, value in enumerate(values)
            ],
        )

    def id(self, partition: int, offset: int) -> str:
        return f"{self.group}/{self.topic}/{partition}/{offset}"

    def committed(self) -> list[int]:
        return self.broker.committed(self.group, self.topic, self.partitions)

    async def until(self, condition: Callable[[], Any], seconds: float = 20) -> None:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - threads and servers bring it about
                await asyncio.sleep(0.01)

    async def until_state(self, run_id: str, state: str) -> None:
        async with asyncio.timeout(20):
            while (await self.states([run_id])) != [state]:  # noqa: ASYNC110 - reads are all there is
                await asyncio.sleep(0.02)

    async def until_completed(self, run_ids: list[str]) -> None:
        async with asyncio.timeout(20):
            while set(await self.states(run_ids)) != {"completed"}:  # noqa: ASYNC110 - reads are all there is
                await asyncio.sleep(0.02)

    async def states(self, run_ids: list[str]) -> list[str | None]:
        return [None if answer is None else answer[0] for answer in await self.store.results(run_ids)]

    async def open_runs(self) -> int:
        units = [f"{self.topic}/{n}" for n in range(self.partitions)]
        return sum([len(await self.store.open_runs("orders", unit, 10_000)) for unit in units])


def at(worker: Worker, partition: int) -> PartitionStats:
    found = [each for each in stats(worker).partitions if each.partition == partition]
    return found[0] if found else PartitionStats(partition, None, 0, 0, None, False, None)


def stats(worker: Worker) -> StreamStats:
    (found,) = worker.stats().streams
    assert isinstance(found, StreamStats)
    return found
