"""Worker, the table of contents: what it is made with, how it is run, stopped and looked at.

lives.py: registers, beats, starts anew after a lost lease · turn.py: one turn after the other · execute.py:
bodies and their outcomes · heartbeat.py · limits.py · threads.py · stop.py · registration.py · children.py
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from pyrula.clock import Clock, SystemClock, check_clock
from pyrula.errors import ConfigurationError, InvalidPayload, expect, shown
from pyrula.limiters import LimiterConfig, PollRate, Stats
from pyrula.model.duration import Duration, at_least_0_us, positive_us
from pyrula.store.protocol import Store, check_store
from pyrula.workflows.body.port import Tracer
from pyrula.workflows.prepare import named
from pyrula.workflows.worker.limits import Limits
from pyrula.workflows.worker.lives import Lives, Setting
from pyrula.workflows.worker.stop import stop
from pyrula.workflows.workflow import Registry, Workflow, check_registry, default_registry

_log = logging.getLogger("pyrula.worker")
_UNCHANGED: Final[Any] = object()
_SHORTEST_LEASE: Final = 100_000
_MOST_RUNS: Final = 1_000_000_000


class WorkerStats(NamedTuple):
    """What a worker does now. executing: bodies; threads: of their steps; ended: bodies since it was made;
    limiters: its counters, and what holds it back; streams: of each, how far it is."""

    worker_id: str
    executing: int
    threads: int
    ended: int
    limiters: Stats
    streams: tuple[Any, ...] = ()


class Worker:
    """Takes runs from `store` and executes them, until it is stopped.

    workflows: what it serves: a `Registry`, workflows or their names; default: all of `registry`. worker_id:
    a name for people (default host and process); leases belong to lives, never to names. max_concurrent_runs:
    bodies at once. lease_seconds: how long runs stay its own once its heartbeat stops. stall_seconds: for how
    long a body may block the event loop. grace_seconds: what bodies get to end when it is stopped. limits,
    limiter_time_windows, limiter_check_frequency, task_poller_pool_size, task_poller_limiter, cluster:
    worker-side limiters (default cluster: the store). registry: the workflows that its runs may submit as
    children by name (default: all imported). clock: default the store's. on_stuck: called with a reason, from
    any thread, when leases are lost and something can't be stopped; default: it is logged as critical.
    tracer: follows runs and steps, such as `pyrula.telemetry.otel.Tracing()`.
    heartbeat: False leaves it to the caller to `beat` (a test does, that lets time jump). streams: False
    consumes no stream; runs of records that others consumed are not its own then.

    Raises `ConfigurationError`, naming the argument, for what can't be kept.
    """

    def __init__(
        self,
        store: Store,
        workflows: Registry | Iterable[Workflow[..., Any] | str] | None = None,
        worker_id: str | None = None,
        *,
        max_concurrent_runs: int = 100,
        lease_seconds: Duration = 30,
        stall_seconds: Duration = 300,
        grace_seconds: Duration = 10,
        limits: Mapping[str, Any] | None = None,
        limiter_time_windows: Mapping[str, Duration] | None = None,
        limiter_check_frequency: Duration = 0.5,
        task_poller_pool_size: int = 1,
        task_poller_limiter: PollRate | None = None,
        cluster: str | None = None,
        registry: Registry | None = None,
        clock: Clock | None = None,
        on_stuck: Callable[[str], None] | None = None,
        tracer: Tracer | None = None,
        heartbeat: bool = True,
        streams: bool = True,
    ) -> None:
        check_store("Worker: store", store)
        check_clock("Worker: clock", clock)
        check_registry("Worker: registry", registry)
        stuck_right = on_stuck is None or callable(on_stuck)
        expect("Worker: on_stuck", on_stuck, stuck_right, "a function of a text, or None")
        traces = tracer is None or all(hasattr(tracer, name) for name in ("began", "ended", "step"))
        expect("Worker: tracer", tracer, traces, "a tracer (pyrula.telemetry.otel.Tracing()), or None")
        expect("Worker: heartbeat", heartbeat, isinstance(heartbeat, bool), "True or False")
        expect("Worker: streams", streams, isinstance(streams, bool), "True or False")
        if not _whole(max_concurrent_runs) or max_concurrent_runs > _MOST_RUNS:
            raise _refusal("max_concurrent_runs", max_concurrent_runs, f"an int from 1 to {_MOST_RUNS}")
        lease = _duration("lease_seconds", lease_seconds, positive_us)
        if lease < _SHORTEST_LEASE:
            raise _refusal("lease_seconds", lease_seconds, "at least 0.1 s")
        known = (
            registry
            if registry is not None
            else workflows
            if isinstance(workflows, Registry)
            else default_registry
        )
        self._clock: Clock = clock or getattr(store, "clock", None) or SystemClock()
        self.worker_id = _named("worker_id", worker_id) or f"{platform.node()}-{os.getpid()}"
        self._grace = _duration("grace_seconds", grace_seconds, at_least_0_us)
        options = {
            "limits": limits,
            "limiter_time_windows": limiter_time_windows,
            "limiter_check_frequency": limiter_check_frequency,
            "task_poller_pool_size": task_poller_pool_size,
            "task_poller_limiter": task_poller_limiter,
        }
        self._limits = Limits.of(
            self._clock, self.worker_id, _named("cluster", cluster) or f"store {store.place}", options
        )
        self._on_stuck = on_stuck
        self._setting = Setting(
            store=store,
            clock=self._clock,
            worker_id=self.worker_id,
            served=_served(workflows, known),
            known=known,
            most=max_concurrent_runs,
            lease=lease,
            stall=_duration("stall_seconds", stall_seconds, positive_us),
            limits=self._limits,
            stuck=on_stuck or _cry_out,
            beats=heartbeat,
            streams=streams,
            tracer=tracer,
        )
        self._lives: Lives | None = None
        self._ended = 0
        self._background: asyncio.Task[None] | None = None

    # -- running

    async def run(self) -> None:
        """Execute runs until `stop` is called. Cancelled, it hands back what executes, at once."""
        await self._run(drain=False)

    async def drain(self) -> None:
        """Execute all that is due now, and what that makes due, and return; what is parked stays so."""
        await self._run(drain=True)

    async def _run(self, *, drain: bool) -> None:
        if self._lives is not None:
            raise RuntimeError(f"worker {self.worker_id} runs already; make another one to run beside it")
        self._lives = lives = Lives(self._setting)
        try:
            await lives.run(drain=drain)
        finally:
            self._ended += lives.executions.completed
            self._lives = None

    async def stop(self, grace_seconds: Duration | None = None) -> None:
        """Claim nothing more, let bodies end within the grace, hand the rest back, and return when `run` has.

        A plain function that a step runs in a thread can't be stopped: its run keeps its slot until the
        thread ends. Called again with a shorter grace, the shorter one holds.
        """
        lives = self._lives
        grace = (
            self._grace if grace_seconds is None else _duration("grace_seconds", grace_seconds, at_least_0_us)
        )
        if lives is not None:
            await stop(lives, self._clock, grace, self._on_stuck)

    def abandon(self) -> None:
        """For tests: vanish as SIGKILL does, with no write to the store; leases last until they lapse."""
        if self._lives is not None:
            self._lives.abandon()

    def beat(self) -> bool:
        """Renew the leases now, from any thread; False if the store has given the worker up.

        It beats by itself: call this where nothing else can, as when a test lets time jump.
        """
        lives = self._lives
        heartbeat = lives.heartbeat if lives is not None else None
        if heartbeat is None:
            return False
        heartbeat.tick()
        return heartbeat.beat()

    async def __aenter__(self) -> Self:
        self._background = asyncio.ensure_future(self.run())
        await asyncio.sleep(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        background, self._background = self._background, None
        await self.stop()
        if background is not None:
            await background

    # -- looking

    @property
    def executing(self) -> int:
        """Bodies that were started and whose outcome is not handed in yet."""
        lives = self._lives
        return 0 if lives is None else len(lives.executions.bodies) + lives.executions.waiting

    @property
    def threads(self) -> int:
        """Threads in which steps run."""
        return 0 if self._lives is None else self._lives.executions.threads

    @property
    def idle(self) -> bool:
        """Whether no turn is under way or due, and nothing waits to be handed in."""
        lives = self._lives
        return lives is None or (
            lives.turns.resting and not lives.executions.waiting and not lives.wake.is_set()
        )

    @property
    def incarnation(self) -> str:
        """The id of its present life; "" while it does not run."""
        return "" if self._lives is None else self._lives.executions.incarnation

    def stats(self) -> WorkerStats:
        """What it does now."""
        ended = self._ended + (0 if self._lives is None else self._lives.executions.completed)
        streams = () if self._lives is None else self._lives.streams.stats()
        limiters = self._limits.limiter.stats()
        return WorkerStats(self.worker_id, self.executing, self.threads, ended, limiters, streams)

    # -- limiters

    def get_limiter_config(self) -> LimiterConfig:
        """The limiters' configuration in force."""
        return self._limits.limiter.get_config()

    def set_limiter_config(
        self,
        limits: Mapping[str, Any] | None = _UNCHANGED,
        task_poller_limiter: PollRate | None = _UNCHANGED,
        limiter_check_frequency: Duration = _UNCHANGED,
    ) -> LimiterConfig:
        """Change what is given, live and all or nothing; `limits={}` clears all levels. Raises
        `ConfigurationError`."""
        given: dict[str, Any] = {
            "limits": limits,
            "task_poller_limiter": task_poller_limiter,
            "limiter_check_frequency": limiter_check_frequency,
        }
        changed = {name: value for name, value in given.items() if value is not _UNCHANGED}
        config = self._limits.configure(changed)
        if self._lives is not None:
            self._lives.look()
        return config


def _served(workflows: Registry | Iterable[Workflow[..., Any] | str] | None, known: Registry) -> Registry:
    if workflows is None:
        return known
    if isinstance(workflows, Registry):
        return workflows
    if isinstance(workflows, str) or not isinstance(workflows, Iterable):
        raise _refusal("workflows", workflows, "a Registry, or a list of workflows or their names")
    served = Registry()
    for workflow in workflows:
        if not isinstance(workflow, str | Workflow):
            raise _refusal("workflows", workflow, "of workflows (functions under @workflow) or their names")
        served.add(known.get(workflow) if isinstance(workflow, str) else workflow)
    return served


def _named(what: str, name: object) -> str | None:
    if name is None:
        return None
    try:
        return named(f"Worker: {what}", name)
    except InvalidPayload as error:
        raise ConfigurationError(str(error)) from None


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _cry_out(reason: str) -> None:
    _log.critical("%s. End this process: its leases are over and it can't be made to stop by itself.", reason)


def _duration(what: str, value: object, convert: Callable[[object], int]) -> int:
    try:
        return convert(value)
    except ValueError as error:
        raise _refusal(what, value, str(error)) from None


def _refusal(what: str, value: object, must: str) -> ConfigurationError:
    return ConfigurationError(f"Worker: {what} is {shown(value)}; it must be {must}")
