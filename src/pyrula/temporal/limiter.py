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
from pyrula.limiters import LIMITABLES, Hub, LimiterConfig, PollRate, Stats
from pyrula.limiters import hub as process_hub
from pyrula.limiters.config import DEFAULT_CHECK_FREQUENCY, Duration
from pyrula.limiters.worker import UNCHANGED
from pyrula.temporal.crossing import tuner
from pyrula.temporal.executions import CountingRunner, Lives
from pyrula.temporal.gate import Gate
from pyrula.temporal.pollers import ExecutionPollers, Pollers, SharedPollers
from pyrula.temporal.running import FollowsWorker
from pyrula.temporal.slots import LimitedSupplier

DEFAULT_POOL = 5
DEFAULT_POOLS = {"activity_regular": 10}
"""Of more than `DEFAULT_POOL`, as in the original: a poll's place is free again only when its task was handed out, and
activities come in crowds."""


class WorkerLimiter:
    """The limiters of one Temporal worker, given to it by `worker_options`.

    worker_id: its name in figures and events; cluster: the name of its Temporal cluster; limits,
    limiter_time_windows, limiter_check_frequency, task_poller_pool_size (None: 10 for regular activities, else 5),
    task_poller_limiter: as the seed has them, durations in seconds or timedelta; kinds: the limitables the worker
    serves (None: all), which it may list at worker level; session: its activities are those of a session worker
    (`activity_session`); workflow_counts: what `workflow` counts, executions alive or workflow tasks; strict: idle
    polls of other workers count too at node and cluster level: exact over several workers, but idle workers hold
    capacity.

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
        limiter_check_frequency: Duration = DEFAULT_CHECK_FREQUENCY,
        task_poller_pool_size: int | None = None,
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
            task_poller_pool_size=DEFAULT_POOL if task_poller_pool_size is None else task_poller_pool_size,
            task_poller_limiter=task_poller_limiter,
            strict=strict,
            families_apart=True,
            pools=DEFAULT_POOLS if task_poller_pool_size is None else None,
        )
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
        inner, pools = workflow_runner or SandboxedWorkflowRunner(), self._limiter.pools
        return {
            "plugins": [*plugins, FollowsWorker(self._gate, self._lives)],
            "tuner": tuner(
                workflow=self._workflow_supplier(),
                activity=self._activity_supplier(),
                local_activity=self._supplier(Pollers(self._limiter, "local", "activity_direct", None)),
                nexus=self._supplier(self._pollers("nexus", "nexus")),
            ),
            # Half of the workflow polls go to the normal queue, where limits apply; half to the sticky one.
            "workflow_task_poller_behavior": PollerBehaviorSimpleMaximum(2 * pools["workflow"]),
            "nonsticky_to_sticky_poll_ratio": 0.5,
            "activity_task_poller_behavior": PollerBehaviorSimpleMaximum(pools[self._remote]),
            "nexus_task_poller_behavior": PollerBehaviorSimpleMaximum(pools["nexus"]),
            "workflow_runner": inner if self._counts_tasks else CountingRunner(inner, self._lives),
        }

    def get_limiter_config(self) -> LimiterConfig:
        """The configuration in force."""
        return self._limiter.get_config()

    def set_limiter_config(
        self,
        limits: Mapping[str, Any] | None = UNCHANGED,
        task_poller_limiter: PollRate | None = UNCHANGED,
        limiter_check_frequency: Duration = UNCHANGED,
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

    def _pollers(self, name: str, kind: str) -> Pollers:
        return Pollers(self._limiter, name, kind, self._limiter.pools[kind])

    def _supplier(self, group: Pollers) -> LimitedSupplier:
        return LimitedSupplier(self._gate, lambda ctx: group, lambda ctx: group)

    def _activity_supplier(self) -> LimitedSupplier:
        polled = self._pollers("activity", self._remote)
        eager = Pollers(self._limiter, "eager", "activity_eager", None)

        def handed_over(ctx: SlotReserveContext) -> Pollers | None:
            return eager if self._limiter.lists("activity_eager", where_listed=self._remote) else None

        return LimitedSupplier(self._gate, lambda ctx: polled, handed_over)

    def _workflow_supplier(self) -> LimitedSupplier:
        pool = self._limiter.pools["workflow"]
        if self._counts_tasks:
            normal, sticky = SharedPollers.pair(self._limiter, pool)
            eager = Pollers(self._limiter, "workflow eager", "workflow", None)
            return LimitedSupplier(
                self._gate, lambda ctx: sticky if ctx.is_sticky else normal, lambda ctx: eager
            )
        polled = ExecutionPollers(self._limiter, "workflow", pool, self._lives)
        started = ExecutionPollers(self._limiter, "workflow eager", None, self._lives)
        # Sticky polls carry on executions that live here: holding them back would stop what runs.
        return LimitedSupplier(self._gate, lambda ctx: None if ctx.is_sticky else polled, lambda ctx: started)
