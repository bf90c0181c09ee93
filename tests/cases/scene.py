"""A field report replayed: a store, workers and a clock that jumps, with a record of who ran when."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from pyrula.testing import Environment
from pyrula.workflows import Registry, RunCancelled, RunEnded, Workflow, WorkflowClient, workflow

LATE = 0.001
"""A start may come 1 ms late, never early."""
OTHER = "another key"
_SOME_YEARS = 10.0**8


class Start(NamedTuple):
    """A body that began: virtual seconds, its key, its run, and what the test gave it as `n`."""

    at: float
    key: str
    run_id: str
    n: Any


class Scene:
    """An `Environment`, and bodies that record their starts and ends.

    starts: in order. ends: (when, run id). log: both, as (begins, key, run id), in order. active, peaks:
    bodies by key, now and at most. url: of its store.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self.url = url
        self.registry = Registry()
        self.env = Environment(url, self.registry, worker=False, **options)
        self.client: WorkflowClient = self.env.client
        self.starts: list[Start] = []
        self.ends: list[tuple[float, str]] = []
        self.log: list[tuple[bool, str, str]] = []
        self.active: Counter[str] = Counter()
        self.peaks: Counter[str] = Counter()
        self._stopping: list[asyncio.Task[None]] = []

    # -- declaring

    def declare(
        self,
        name: str = "w",
        *,
        body: Callable[..., Awaitable[Any]] | None = None,
        registry: Registry | None = None,
        **policies: Any,
    ) -> Workflow[..., Any]:
        """A workflow whose body stays for `seconds`, or takes a batch if it has a trigger; or `body`."""
        chosen = body or (self._batch if policies.get("trigger") else self._work)
        return workflow(name=name, registry=self.registry if registry is None else registry, **policies)(
            chosen
        )

    async def _work(self, ctx: Any, k: Any = None, seconds: float = 0.0, n: Any = None) -> Any:
        with self.seat(ctx, k, n):
            if seconds:
                await self.env.sleep(seconds)
        return n

    async def _batch(self, ctx: Any, key: str, events: list[Any], count: int) -> int:
        with self.seat(ctx, key, [event.get("n") for event in events]):
            assert count == len(events)
        return count

    @contextmanager
    def seat(self, ctx: Any, k: Any, n: Any = None) -> Iterator[None]:
        """Record that a body of key `k` is active."""
        key = "" if k is None else str(k)
        self.starts.append(Start(self.env.now, key, ctx.run_id, n))
        self.log.append((True, key, ctx.run_id))
        self.active[key] += 1
        self.peaks[key] = max(self.peaks[key], self.active[key])
        try:
            yield
        finally:
            self.active[key] -= 1
            self.log.append((False, key, ctx.run_id))
            self.ends.append((self.env.now, ctx.run_id))

    # -- playing

    async def work(self, **options: Any) -> Any:
        """Start a worker. options: of `Worker`."""
        return await self.env.start_worker(**options)

    async def submit(self, count: int, name: str = "w", **params: Any) -> list[str]:
        """Submit so many runs, numbered `n` = 0, 1, …, and let happen what is due; answers their ids."""
        many = [{"k": "k", "n": number, **params} for number in range(count)]
        ids = await self.client.submit_many(name, many)
        await self.env.settle()
        return ids

    async def one(self, name: str = "w", options: dict[str, Any] | None = None, **params: Any) -> str:
        """Submit one run. options: of `submit`."""
        run_id = await self.client.submit(name, {"k": "k", **params}, **(options or {}))
        await self.env.settle()
        return run_id

    async def reach(self, at: float) -> None:
        """Let time pass until `at`."""
        await self.env.advance(round(at - self.env.now, 6))

    async def redeploy(self, name: str = "w", **policies: Any) -> None:
        """Restart with a changed decorator: new worker and client; old workers end what they have begun."""
        self.registry = Registry()
        self.declare(name, **policies)
        self.client = WorkflowClient(self.env.store, self.registry)
        for worker in self.env.workers:
            self._stopping.append(asyncio.ensure_future(worker.stop(_SOME_YEARS)))
        await self.env.settle()
        await self.work(workflows=self.registry)

    # -- looking

    def times(self, key: str = "k") -> list[float]:
        """When bodies of a key began."""
        return [start.at for start in self.starts if start.key == key]

    def order(self, key: str = "k") -> list[str]:
        """Ids of the runs of a key, as their bodies began."""
        return [start.run_id for start in self.starts if start.key == key]

    def started(self, run_id: str) -> list[float]:
        """When this run's body began, each time."""
        return [start.at for start in self.starts if start.run_id == run_id]

    async def state(self, run_id: str) -> str:
        """What the store says of a run."""
        return (await self.client.get(run_id)).state

    async def states(self, run_ids: Sequence[str]) -> list[str]:
        """What the store says of these runs."""
        return [await self.state(run_id) for run_id in run_ids]

    async def executing(self, gate: str = "w.limit", key: str = "k") -> int:
        """Slots in use, as the store counts."""
        return sum(found.in_use for found in await self.client.gates(gate, key))

    async def ended_with(self, run_id: str) -> type[RunEnded]:
        """The error that `result` raises for a run that has ended."""
        with pytest.raises(RunEnded) as raised:
            await self.client.result(run_id)
        return type(raised.value)

    async def was_cancelled(self, run_id: str) -> bool:
        """Whether `result` raises RunCancelled."""
        return await self.ended_with(run_id) is RunCancelled


class Bystander:
    """Runs of another key beside the case: each must start as if the case were not there."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.expected: list[float] = []

    async def queue(self, name: str = "w", *, at: float | None = None, **params: Any) -> str:
        """Submit a run of the other key, to start at once. at: when a worker starts, if there is none yet."""
        run_id = await self._scene.one(name, k=OTHER, **params)
        self.expected.append(self._scene.env.now if at is None else at)
        return run_id

    async def trigger(self, name: str = "w", *, at: float, **event: Any) -> None:
        """Trigger with an event of the other key, whose batch is to start `at`."""
        await self._scene.client.trigger(name, {"k": OTHER, **event})
        await self._scene.env.settle()
        self.expected.append(at)

    def check(self) -> None:
        """Raise unless there was one, and each started when it could."""
        assert self.expected, "no run of another key was queued beside this case"
        assert_times(self._scene.times(OTHER), sorted(self.expected))


def assert_times(found: Sequence[float], expected: Sequence[float]) -> None:
    """Raise unless each start came at its time: never early, at most 1 ms late."""
    assert len(found) == len(expected), f"{len(found)} starts, not {len(expected)}: {list(found)[:30]}"
    off = [(a, b) for a, b in zip(found, expected, strict=True) if not -1e-9 <= a - b <= LATE + 1e-9]
    assert not off, f"(found, expected): {off[:10]}"
