"""Where streams meet their worker: starts what consumes for its workflows, serves the units that they own, and
tells them which of their runs have ended here."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Protocol

from pyrula.clock import Clock
from pyrula.errors import ConfigurationError
from pyrula.model.lease import Lease
from pyrula.model.outcome import Cancelled, Completed, Failed, Outcome
from pyrula.store.protocol import Store
from pyrula.workflows.workflow import Workflow

_log = logging.getLogger("pyrula.worker")


class Consumer(Protocol):
    """Consumes for one workflow. It lives on the worker's event loop."""

    def start(self) -> None:
        """Begin to consume, in the background."""

    def look(self) -> None:
        """The worker is about to stop, or something else is news."""

    def ended(self, run_id: str, outcome: Outcome) -> None:
        """A run that this worker executed has ended, and the store knows."""

    async def close(self, *, vanish: bool) -> None:
        """Bodies are over: say how far everything is done and leave; or vanish, as a killed process does."""

    def stats(self) -> Any:
        """What it does now."""


class Here(Protocol):
    """What a consumer sees of its worker."""

    store: Store
    clock: Clock
    worker_id: str

    @property
    def stopping(self) -> bool:
        """Nothing more is to be begun."""

    def executes(self, run_id: str) -> bool:
        """Whether a body of that run is under way here."""

    async def own(self, workflow: str, names: Collection[str]) -> None:
        """Be handed the runs of these units (`served_name`) of a workflow from now on, and of no others of
        it. Raises `StoreError` when the store could not be told."""

    def tell(self, workflow: str, facts: Mapping[str, Any]) -> None:
        """What people should know of the stream of a workflow; it is in the store soon."""


class Life(Protocol):
    """What this module needs of a worker's life."""

    @property
    def incarnation(self) -> str:
        """Of the present life."""

    @property
    def stopping(self) -> bool:
        """Nothing more is to be begun."""

    def look(self) -> None:
        """Something may be there to claim."""

    def tell(self, name: str, fact: object) -> None:
        """What people should know of this worker; it is in the store soon."""


class Streams:
    """The consumers of one worker, and what it serves for them. It is the `Here` of each of them."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        worker_id: str,
        life: Life,
        workflows: Sequence[Workflow[..., Any]],
    ) -> None:
        self.store, self.clock, self.worker_id = store, clock, worker_id
        self._life = life
        self._plain = [workflow.name for workflow in workflows]
        self._streamed = [workflow for workflow in workflows if workflow.stream is not None]
        self._consumers: dict[str, Consumer] = {}
        self._owned: dict[str, tuple[str, ...]] = {}
        self._facts: dict[str, Mapping[str, Any]] = {}
        self._names: dict[Lease, tuple[str, str]] = {}
        self._executing: set[str] = set()

    # -- what the worker calls

    def start(self) -> None:
        """Begin to consume. Raises `ConfigurationError` where a client library is missing."""
        for workflow in self._streamed:
            self._consumers[workflow.name] = _consumer(workflow, self)
        for consumer in self._consumers.values():
            consumer.start()

    async def close(self, *, vanish: bool = False) -> None:
        """Bodies are over: have each consumer say how far it came, and leave."""
        for name, consumer in self._consumers.items():
            try:
                await consumer.close(vanish=vanish)
            except Exception:  # whatever it is, the others are to leave in order, too
                _log.exception("the stream of workflow %s did not close in order", name)

    @property
    def units(self) -> tuple[str, ...]:
        """What the worker serves besides its workflows."""
        return tuple(name for names in self._owned.values() for name in names)

    def began(self, workflow: str, run_id: str) -> None:
        """A body begins."""
        if workflow in self._consumers:
            self._executing.add(run_id)

    def body_over(self, lease: Lease, workflow: str, run_id: str) -> None:
        """A body is over, and what became of it will be handed in."""
        if workflow in self._consumers:
            self._executing.discard(run_id)
            self._names[lease] = (workflow, run_id)

    def handed_in(self, outcomes: Sequence[tuple[Lease, Outcome]], refused: Collection[Lease]) -> None:
        """The store has taken these, but for the refused ones."""
        if not self._names:
            return
        for lease, outcome in outcomes:
            name = self._names.pop(lease, None)
            if name is not None and lease not in refused and isinstance(outcome, _ENDS):
                self._consumers[name[0]].ended(name[1], outcome)

    def born(self) -> None:
        """A new life of the worker begins; nothing of the old one is handed in any more."""
        self._names.clear()

    def look(self) -> None:
        """The worker is about to stop."""
        for consumer in self._consumers.values():
            consumer.look()

    def stats(self) -> tuple[Any, ...]:
        """What each consumer does now."""
        return tuple(consumer.stats() for consumer in self._consumers.values())

    # -- what a consumer sees

    @property
    def stopping(self) -> bool:
        return self._life.stopping

    def executes(self, run_id: str) -> bool:
        return run_id in self._executing

    async def own(self, workflow: str, names: Collection[str]) -> None:
        before = self._owned.get(workflow, ())
        self._owned[workflow] = tuple(names)
        try:
            await self.store.serve(self._life.incarnation, [*self._plain, *self.units])
        except BaseException:
            self._owned[workflow] = before
            raise
        self._life.look()

    def tell(self, workflow: str, facts: Mapping[str, Any]) -> None:
        self._facts[workflow] = facts
        self._life.tell("streams", list(self._facts.values()))


_ENDS: Final = (Completed, Failed, Cancelled)


def _consumer(workflow: Workflow[..., Any], here: Here) -> Consumer:
    """What consumes for a workflow: its stream names the module, so that none is imported without need."""
    stream = workflow.stream
    assert stream is not None
    try:
        module = importlib.import_module(stream.CONSUMER)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"workflow {workflow.name!r} has stream=, and {error.name} is not installed: pip install "
            f"'pyrula-workflows[{stream.EXTRA}]'"
        ) from error
    consumer: Consumer = module.consume(workflow, here)
    return consumer
