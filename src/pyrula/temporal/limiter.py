"""`WorkerLimiter`: pyrula's limiters under a worker of the official Temporal SDK.

Source: the seed, whose limitables, levels and live configuration it keeps; docs/temporal.md has the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from temporalio.worker import (
    Plugin,
    PollerBehaviorSimpleMaximum,
    SlotReserveContext,
    WorkflowRunner,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from pyrula.errors import ConfigurationError, expect, shown
from pyrula.limiters import LIMITABLES, Hub, Limiter, LimiterConfig, PollRate, Stats
from pyrula.limiters import hub as process_hub
from pyrula.limiters.config import DEFAULT_CHECK_FREQUENCY, Duration
from pyrula.limiters.worker import UNCHANGED
from pyrula.temporal.crossing import tuner
from pyrula.temporal.executions import Arrival, CountingRunner, Lives
from pyrula.temporal.gate import Gate
from pyrula.temporal.permit import Place
from pyrula.temporal.running import FollowsWorker
from pyrula.temporal.slots import LimitedSupplier

DEFAULT_POOL = 5


class Counted:
    """A place whose execution lasts from the hand-over of its task to the answer."""

    def __init__(self, limiter: Limiter, kind: str, group: str) -> None:
        self._limiter, self._kind, self._group = limiter, kind, group

    def use(self) -> None:
        """Its execution begins."""
        self._limiter.begin(self._kind, reserved=True, group=self._group)

    def free(self, used: bool) -> None:
        """Its execution ended, or it came to nothing."""
        if used:
            self._limiter.end(self._kind)
        else:
            self._limiter.release(self._kind, group=self._group)


class Arriving:
    """A place of the normal workflow queue: its execution lives on after the task."""

    def __init__(self, limiter: Limiter, lives: Lives, group: str) -> None:
        self._limiter, self._lives, self._group = limiter, lives, group
        self._arrival: Arrival | None = None

    def use(self) -> None:
        """An execution arrives."""
        self._arrival = self._lives.arrive(self._group)

    def free(self, used: bool) -> None:
        """Its task is over, or it came to nothing."""
        if self._arrival is not None:
            self._lives.depart(self._arrival)
        else:
            self._limiter.release("workflow", group=self._group)


class Pollers:
    """A group of at most `pool` open polls (None: it has no polls), and no permit beyond them.

    The SDK keeps one more permit than it has polls; given out, it would double the rate of the bucket and
    count one too many.
    """

    def __init__(self, limiter: Limiter, name: str, kind: str, pool: int | None) -> None:
        self.limiter, self.name, self.kind, self.pool = limiter, name, kind, pool

    def place(self) -> Place:
        """What a permit of this group stands for."""
        return Counted(self.limiter, self.kind, self.name)

    def allow(self) -> bool:
        """Whether a poll is free."""
        return self.pool is None or self.limiter.places.get(self.name, 0) < self.pool


class ExecutionPollers(Pollers):
    """The pollers of the normal workflow queue, where executions are counted."""

    def __init__(self, limiter: Limiter, name: str, pool: int | None, lives: Lives) -> None:
        super().__init__(limiter, name, "workflow", pool)
        self.lives = lives

    def place(self) -> Place:
        """What a permit of this group stands for."""
        return Arriving(self.limiter, self.lives, self.name)


class SharedPollers(Pollers):
    """One of two groups that share a limit on workflow tasks: neither takes the last place from the other."""

    def __init__(self, limiter: Limiter, name: str, pool: int, other: str, first: bool) -> None:
        super().__init__(limiter, name, "workflow", pool)
        self.other, self.first = other, first

    def allow(self) -> bool:
        """Whether a poll is free, and one place is left to the other group."""
        if not super().allow():
            return False
        places = self.limiter.places
        if places.get(self.other, 0) > 0 or (self.first and places.get(self.name, 0) == 0):
            return True
        return self.limiter.places_left("workflow") != 1


class WorkerLimiter:
    """The limiters of one Temporal worker, given to it by `worker_options`.

    worker_id: its name in figures and events; cluster: the name of its Temporal cluster; limits,
    limiter_time_windows, limiter_check_frequency, task_poller_pool_size, task_poller_limiter: as the seed has
    them, durations in seconds or timedelta; kinds: the limitables the worker serves (None: all), which it may
    list at worker level; session: its activities are those of a session worker (`activity_session`);
    workflow_counts: what `workflow` counts, executions alive or workflow tasks; strict: idle polls of other
    workers count too at node and cluster level: exact over several workers, but idle workers hold capacity.

    Raises ConfigurationError for what can't be kept. One for each worker, one after another; `close` it when
    there will be no more.
    """

    def __init__(
        self,
        worker_id: str,
        cluster: str = "default",
        *,
        limits: Mapping[str, Any] | None = None,
        limiter_time_windows: Mapping[str, Duration] | None = None,
        limiter_check_frequency: float = DEFAULT_CHECK_FREQUENCY,
        task_poller_pool_size: int = DEFAULT_POOL,
        task_poller_limiter: PollRate | None = None,
        kinds: tuple[str, ...] | None = None,
        session: bool = False,
        workflow_counts: Literal["executions", "tasks"] = "executions",
        strict: bool = False,
        hub: Hub | None = None,
    ) -> None:
        if workflow_counts not in ("executions", "tasks"):
            raise ConfigurationError(
                f"workflow_counts: {shown(workflow_counts)} is refused; expected 'executions' or 'tasks'"
            )
        names: dict[str, object] = {"worker_id": worker_id, "cluster": cluster}
        for name, text in names.items():
            expect(f"WorkerLimiter: {name}", text, isinstance(text, str) and text != "", "a name")
        for name, flag in (("session", session), ("strict", strict)):
            expect(f"WorkerLimiter: {name}", flag, isinstance(flag, bool), "True or False")
        expect(
            "WorkerLimiter: hub", hub, hub is None or isinstance(hub, Hub), "a Hub, or None for the process's"
        )
        unserved = "activity_regular" if session else "activity_session"
        served = tuple(kind for kind in LIMITABLES if kind != unserved)
        given: Any = kinds  # a caller without a type checker may give anything
        listed = isinstance(given, (tuple, list)) and len(given) > 0
        if given is not None and not (listed and all(kind in served for kind in given)):
            raise ConfigurationError(
                f"kinds: {shown(kinds)} is refused; expected some of {', '.join(served)}"
            )
        self._limiter = (hub or process_hub).worker(
            worker_id,
            cluster,
            kinds=served if kinds is None else kinds,
            limits=limits,
            limiter_time_windows=limiter_time_windows,
            limiter_check_frequency=limiter_check_frequency,
            task_poller_pool_size=task_poller_pool_size,
            task_poller_limiter=task_poller_limiter,
            strict=strict,
            families_apart=True,
        )
        self._pool = task_poller_pool_size
        self._counts_tasks = workflow_counts == "tasks"
        self._lives = Lives(self._limiter)
        self._gate = Gate(self._limiter)
        self._remote = "activity_session" if session else "activity_regular"

    def worker_options(
        self, *, workflow_runner: WorkflowRunner | None = None, plugins: Sequence[Plugin] = ()
    ) -> dict[str, Any]:
        """What the official Worker needs, as keyword arguments: tuner, poller behaviours, workflow runner.

        workflow_runner: the one the worker would have (None: the SDK's sandbox); it is wrapped and counted.
        plugins: those the worker would have.
        """
        inner = workflow_runner or SandboxedWorkflowRunner()
        return {
            "plugins": [*plugins, FollowsWorker(self._gate, self._lives)],
            "tuner": tuner(
                workflow=self._workflow_supplier(),
                activity=self._activity_supplier(),
                local_activity=self._supplier(self._pollers("local", "activity_direct", None)),
                nexus=self._supplier(self._pollers("nexus", "nexus", self._pool)),
            ),
            # Half of the workflow polls go to the normal queue, where limits apply; half to the sticky one.
            "workflow_task_poller_behavior": PollerBehaviorSimpleMaximum(2 * self._pool),
            "nonsticky_to_sticky_poll_ratio": 0.5,
            "activity_task_poller_behavior": PollerBehaviorSimpleMaximum(self._pool),
            "nexus_task_poller_behavior": PollerBehaviorSimpleMaximum(self._pool),
            "workflow_runner": inner if self._counts_tasks else CountingRunner(inner, self._lives),
        }

    def get_limiter_config(self) -> LimiterConfig:
        """The configuration in force."""
        return self._limiter.get_config()

    def set_limiter_config(
        self,
        limits: Mapping[str, Any] | None = UNCHANGED,
        task_poller_limiter: PollRate | None = UNCHANGED,
        limiter_check_frequency: float = UNCHANGED,
    ) -> LimiterConfig:
        """Change what is given, at once; what executes goes on. `limits={}` clears all levels.

        Raises ConfigurationError, and changes nothing, for what the worker could not have been made with.
        """
        return self._limiter.set_config(limits, task_poller_limiter, limiter_check_frequency)

    def stats(self) -> Stats:
        """The worker's counters, and what holds it back."""
        return self._limiter.stats()

    def close(self) -> None:
        """Forget the worker; to be called when it has stopped."""
        self._limiter.close()

    def _pollers(self, name: str, kind: str, pool: int | None) -> Pollers:
        return Pollers(self._limiter, name, kind, pool)

    def _supplier(self, group: Pollers) -> LimitedSupplier:
        return LimitedSupplier(self._gate, lambda ctx: group, lambda ctx: group)

    def _activity_supplier(self) -> LimitedSupplier:
        polled = self._pollers("activity", self._remote, self._pool)
        eager = self._pollers("eager", "activity_eager", None)

        def handed_over(ctx: SlotReserveContext) -> Pollers | None:
            return eager if self._limiter.lists("activity_eager", where_listed=self._remote) else None

        return LimitedSupplier(self._gate, lambda ctx: polled, handed_over)

    def _workflow_supplier(self) -> LimitedSupplier:
        if self._counts_tasks:
            normal = SharedPollers(self._limiter, "workflow", self._pool, "workflow sticky", True)
            sticky = SharedPollers(self._limiter, "workflow sticky", self._pool, "workflow", False)
            eager = self._pollers("workflow eager", "workflow", None)
            return LimitedSupplier(
                self._gate, lambda ctx: sticky if ctx.is_sticky else normal, lambda ctx: eager
            )
        polled = ExecutionPollers(self._limiter, "workflow", self._pool, self._lives)
        started = ExecutionPollers(self._limiter, "workflow eager", None, self._lives)
        # Sticky polls carry on executions that live here: holding them back would stop what runs.
        return LimitedSupplier(self._gate, lambda ctx: None if ctx.is_sticky else polled, lambda ctx: started)
