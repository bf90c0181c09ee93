"""A store, a client and a worker in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from pyrula.clock import SECOND
from pyrula.errors import PyrulaError, expect, shown
from pyrula.model.duration import Duration
from pyrula.store.open import open_store
from pyrula.store.protocol import Store
from pyrula.testing.clock import START, VirtualClock
from pyrula.testing.patience import Patience
from pyrula.testing.quiet import quiet
from pyrula.testing.waiting import waiting_for
from pyrula.testing.watch import Watched
from pyrula.workflows import prepare
from pyrula.workflows.client import WorkflowClient
from pyrula.workflows.worker import Worker
from pyrula.workflows.workflow import Registry, Workflow

T = TypeVar("T")
_GIVE_UP_SECONDS: Final = 60.0
_GLANCE_SECONDS: Final = 0.0005
_NEWS_SECONDS: Final = 2.0


class NotSettled(PyrulaError):
    """Something of the environment is still at work in real time, long after it should have ended."""

    code = "not_settled"


class NothingDue(PyrulaError):
    """What is waited for can't happen: nobody waits for time to pass."""

    code = "nothing_due"


class Environment:
    """Gives a client, a worker and a clock that jumps; every timer, window and token comes due in order,
    unslept.

        async with Environment() as env:
            run_id = await env.client.submit("reminder", {"user": "u1"})
            await env.advance(3600)
            assert await env.client.result(run_id) == "sent"

    store_url: as for `open_store`; in memory if left out. workflows: what the worker serves and the client
    knows: a `Registry`, or workflows; the default registry if left out. start: what the wall clock says at
    first. worker: False starts none yet (see `start_worker`). options: of the worker.

    Time stands still but in `advance` and `until`. What a body does in real time (sockets, `asyncio.sleep`)
    is not waited for; sync steps, which run in threads, are.
    """

    def __init__(
        self,
        store_url: str | Sequence[str] | None = None,
        workflows: Registry | Iterable[Workflow[..., Any]] | None = None,
        *,
        start: datetime = START,
        worker: bool = True,
        retention: Duration | None = None,
        **options: Any,
    ) -> None:
        given: object = start  # a caller without a type checker may give anything
        aware = isinstance(given, datetime) and given.tzinfo is not None
        expect("Environment: start", start, aware, "an aware datetime")
        expect("Environment: worker", worker, isinstance(worker, bool), "True or False")
        urls: object = store_url
        place = urls is None or isinstance(urls, (str, list, tuple))
        expect(
            "Environment: store_url", urls, place, "a URL as open_store takes it; workflows go as workflows=…"
        )
        self.clock = VirtualClock(start)
        kept = {} if retention is None else {"retention": retention}
        self._watched = Watched(open_store(store_url or "sqlite://", clock=self.clock, **kept))
        self.store = cast(Store, self._watched)
        self.registry = _registry(workflows)
        self.client = WorkflowClient(self.store, self.registry)
        self._ahead = self.clock.wall() - self.clock.monotonic()
        self.workers: list[Worker] = []
        self._running: dict[Worker, asyncio.Task[None]] = {}
        self._starts_worker = worker
        self._options = options

    async def __aenter__(self) -> Self:
        await self.store.connect()
        if self._starts_worker:
            await self.start_worker()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for worker in list(self.workers):
                await self.stop_worker(worker)
        finally:
            await self.store.close()

    @property
    def worker(self) -> Worker:
        """The worker that was started first, of those that still run."""
        if not self.workers:
            raise RuntimeError("this environment runs no worker; start one: `await env.start_worker()`")
        return self.workers[0]

    @property
    def now(self) -> float:
        """Virtual seconds since the environment was made."""
        return self.clock.now

    async def sleep(self, seconds: Duration) -> None:
        """Let virtual time pass, in a body that pretends to work. (A durable sleep is `ctx.sleep`.)"""
        await self.clock.sleep(prepare.duration("Environment.sleep: seconds", seconds))

    async def start_worker(
        self, workflows: Registry | Iterable[Workflow[..., Any]] | None = None, **options: Any
    ) -> Worker:
        """Start one more worker, and let it do what is due. workflows, options: in place of the
        environment's own.
        """
        registry = self.registry if workflows is None else _registry(workflows)
        worker = Worker(
            self.store, registry, **{"heartbeat": False, "streams": False, **self._options, **options}
        )
        self.workers.append(worker)
        self._running[worker] = asyncio.ensure_future(worker.run())
        await self.settle()
        return worker

    async def stop_worker(self, worker: Worker, grace_seconds: Duration = 0) -> None:
        """Stop a worker as SIGTERM does: what is not over after the grace (virtual) is handed back."""
        grace = prepare.duration("Environment.stop_worker: grace_seconds", grace_seconds)
        running = self._life_of(worker)
        stopping = asyncio.ensure_future(worker.stop(grace_seconds))
        try:
            await self.until(asyncio.wait((stopping, running)), within=grace / SECOND + 10)
        except BaseException:
            stopping.cancel()
            await self.kill(worker)
            raise
        self._forget(worker)
        await stopping
        await running

    async def kill(self, worker: Worker) -> None:
        """Let a worker vanish as SIGKILL does: nothing is handed back, its leases have to lapse."""
        running = self._life_of(worker)
        self._forget(worker)
        worker.abandon()
        running.cancel()
        await asyncio.wait((running,))
        await self.settle()

    async def advance(self, seconds: Duration) -> None:
        """Let that much time pass, from one due moment to the next; all that happens at one happens before
        the next.

        Raises what a worker died of, and `NotSettled` if a thread, or what begins anew at one moment again and again,
        goes on in real time for a minute while no run ends.
        """
        target = self.clock.monotonic() + prepare.duration("Environment.advance: seconds", seconds)
        await self.settle()
        due = self.clock.next_due()
        while due is not None and due <= target:
            await self._move(due)
            due = self.clock.next_due()
        await self._move(target)

    async def until(self, awaitable: Awaitable[T], *, within: Duration = 366 * 86_400) -> T:
        """Let time pass until `awaitable` is over, and answer its result.

            await env.until(env.client.execute("reminder", {"user": "u1"}))

        Raises `NothingDue` if nobody waits for time to pass any more, nor does for two real seconds, and
        TimeoutError after `within` virtual seconds.
        """
        waiting = asyncio.ensure_future(awaitable)
        try:
            most = prepare.duration("Environment.until: within", within)
            last = self.clock.monotonic() + most
            await self.settle()
            while not waiting.done():
                due = self.clock.next_due()
                if due is None:
                    if await self._is_told(waiting):
                        continue
                    idle = (
                        ""
                        if self.workers
                        else "; no worker runs: enter it with `async with`, or start_worker()"
                    )
                    raise NothingDue(
                        f"at {self.now} s nothing more is due, and what is waited for has not happened{idle}"
                        f"{await waiting_for(self.client)}"
                    )
                if due > last:
                    raise TimeoutError(
                        f"not over within {most / SECOND} virtual seconds; it is {self.now} s"
                        f"{await waiting_for(self.client)}"
                    )
                await self._move(due)
            return await waiting
        finally:
            waiting.cancel()

    def _life_of(self, worker: Worker) -> asyncio.Task[None]:
        running = self._running.get(worker)
        if running is None:
            raise RuntimeError(
                f"worker {shown(worker)} is none that this environment runs: start_worker() gives one"
            )
        return running

    async def _is_told(self, waiting: asyncio.Future[Any]) -> bool:
        """Whether `waiting` ends, or something becomes due, after all: a server's news takes real time."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + _NEWS_SECONDS
        while loop.time() < ends:
            await asyncio.wait((waiting,), timeout=_NEWS_SECONDS / 100)
            await self.settle()
            if waiting.done() or self.clock.next_due() is not None:
                return True
        return False

    async def settle(self) -> None:
        """Return once all that can happen at this instant has happened."""
        ahead = self.clock.wall() - self.clock.monotonic()
        if ahead != self._ahead:  # the wall was stepped: heartbeats notice
            self._ahead = ahead
            for worker in self.workers:
                worker.beat()
        patience = Patience(self.store, self.clock, _GIVE_UP_SECONDS)
        while True:
            try:
                await quiet(patience.look_in)
            except TimeoutError:
                if await patience.goes_on():
                    continue
                raise NotSettled(
                    f"{patience.spent} there is always more to do at {self.now} s: something begins anew without time "
                    f"passing, as a body that keeps raising RetryAfter(0){await waiting_for(self.client)}"
                ) from None
            self._raise_deaths()
            threads = sum(worker.threads for worker in self.workers)
            if not threads and not self._watched.calls:
                return
            if not patience.look_in:
                calls = sorted(self._watched.calls.values())
                if not await patience.goes_on():
                    raise NotSettled(
                        f"{patience.spent} the environment is still at work: "
                        f"{threads} threads of steps, store calls {calls}"
                    )
            await asyncio.sleep(_GLANCE_SECONDS)

    async def _move(self, to: int) -> None:
        """Jump, and renew the leases of the living before anybody can look at them."""
        self.clock.move(to)
        for worker in self.workers:
            worker.beat()
        await self.settle()

    def _forget(self, worker: Worker) -> None:
        self.workers.remove(worker)
        del self._running[worker]

    def _raise_deaths(self) -> None:
        for worker, running in list(self._running.items()):
            if running.done() and not running.cancelled() and (error := running.exception()) is not None:
                self._forget(worker)
                raise error


def _registry(workflows: Registry | Iterable[Workflow[..., Any]] | None) -> Registry | None:
    if workflows is None or isinstance(workflows, Registry):
        return workflows
    several: object = workflows  # a caller without a type checker may give anything
    given = list(several) if isinstance(several, Iterable) else []
    right = len(given) > 0 and all(isinstance(each, Workflow) for each in given)
    expect("Environment: workflows", workflows, right, "a Registry, or a list of workflows")
    registry = Registry()
    for workflow in given:
        registry.add(workflow)
    return registry
