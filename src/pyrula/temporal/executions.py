"""Counts workflow executions as long as they live on a worker, not the few milliseconds of a workflow task.

Source: the seed counts with its executors, and an executor lives as long as the execution it carries. Here an
execution lives from its first activation on this worker until it leaves the cache: finished, continued as
new, evicted, or at the worker's stop. Between the hand-over of its first task and that activation it has
*arrived*.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from functools import partial
from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.workflow import Info

from pyrula.limiters import Limiter
from pyrula.limiters.asking import Group

REMEMBERED = 10_000


class Lives:
    """The executions alive on one worker."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self._arrivals: deque[object] = deque()
        """Workflow tasks from the normal queue: an execution that begins, or one that is here already."""
        self._begun: OrderedDict[str, None] = OrderedDict()
        self._alive: set[object] = set()
        self._lock = threading.Lock()

    def arrive(self, group: Group) -> object:
        """A task came whose execution is not known yet: it counts as alive until that is known.

        The answer stands for it when it departs.
        """
        arrival = object()
        self._limiter.arrive("workflow", group)
        self._arrivals.append(arrival)
        return arrival

    def depart(self, arrival: object) -> None:
        """The task is over: if no execution was made for it, it was for one that lived here before."""
        try:
            self._arrivals.remove(arrival)
        except ValueError:
            return
        self._limiter.settle("workflow", lives=False, began=False)

    def enter(self, run_id: str, replaying: bool) -> object:
        """An execution lives here; it began if this is its first start and not its return to a cache.

        The answer stands for it when it leaves.
        """
        life = object()
        with self._lock:
            self._alive.add(life)
            began = not replaying and run_id not in self._begun
            if began:
                self._begun[run_id] = None
                if len(self._begun) > REMEMBERED:
                    self._begun.popitem(last=False)
        try:
            self._arrivals.popleft()
        except IndexError:  # a sticky task whose execution was evicted meanwhile
            self._limiter.revive("workflow", began=began)
        else:
            self._limiter.settle("workflow", lives=True, began=began)
        return life

    def leave(self, life: object) -> None:
        """An execution left the worker."""
        with self._lock:
            if life not in self._alive:
                return
            self._alive.discard(life)
        self._limiter.end("workflow")

    def lose(self, life: object) -> None:
        """As `leave`, from a finaliser: settled by the next call into the hub."""
        self._limiter.hub.returned.append(partial(self.leave, life))

    def end(self) -> None:
        """The worker stopped: what it had cached lives here no more, though the SDK evicts none of it."""
        for life in tuple(self._alive):
            self.leave(life)


class CountedInstance(WorkflowInstance):
    """An instance that is counted from its first activation to its eviction."""

    def __init__(self, inner: WorkflowInstance, lives: Lives) -> None:
        self._inner = inner
        self._lives = lives
        self._life: object = None

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """Pass on, and count."""
        if any(one.HasField("remove_from_cache") for one in act.jobs):
            try:
                return self._inner.activate(act)
            finally:
                self._lives.leave(self._life)
        if self._life is None:
            self._life = self._lives.enter(act.run_id, act.is_replaying)
        return self._inner.activate(act)

    def get_serialization_context(self, command_info: Any) -> Any:
        """Pass on."""
        return self._inner.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> Any:
        """Pass on."""
        return self._inner.get_external_store_context(command_info)

    def get_info(self) -> Info:
        """Pass on."""
        return self._inner.get_info()

    def get_thread_id(self) -> int | None:
        """Pass on."""
        return self._inner.get_thread_id()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __del__(self) -> None:
        if self._life is not None:  # the SDK's safe eviction is off: it drops instances without a word
            self._lives.lose(self._life)


class CountingRunner(WorkflowRunner):
    """The user's workflow runner, sandboxed or not, with its instances counted."""

    def __init__(self, inner: WorkflowRunner, lives: Lives) -> None:
        self._inner = inner
        self._lives = lives

    def prepare_workflow(self, defn: Any) -> None:
        """Pass on."""
        self._inner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """The inner runner's instance, counted."""
        return CountedInstance(self._inner.create_instance(det), self._lives)

    def set_worker_level_failure_exception_types(self, types: Any) -> None:
        """Pass on."""
        self._inner.set_worker_level_failure_exception_types(types)
