"""Executes: bodies under way, what they ask of the store, and the outcomes that wait to be handed in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from pyrula.clock import SECOND, Clock
from pyrula.errors import LeaseLost, StoreBusy, StoreClosed, StoreError, StoreUnavailable
from pyrula.model.lease import Lease
from pyrula.model.outcome import Outcome, Parked, Released
from pyrula.model.step import Entry
from pyrula.store.protocol import Claim, Signal, Store
from pyrula.workflows.body import Body
from pyrula.workflows.body.ending import set_aside
from pyrula.workflows.body.port import Tracer
from pyrula.workflows.catalogue import Catalogue
from pyrula.workflows.worker.children import submit_child
from pyrula.workflows.worker.limits import Limits
from pyrula.workflows.worker.streams import Streams
from pyrula.workflows.worker.telling import tell
from pyrula.workflows.worker.threads import Threads
from pyrula.workflows.workflow import Registry

T = TypeVar("T")
Errors = type[StoreError] | tuple[type[StoreError], ...]
_log = logging.getLogger("pyrula.worker")
_FIRST_RETRY: Final = SECOND // 20
_LONGEST_RETRY: Final = 2 * SECOND
_PASSES: Final = (StoreBusy, StoreUnavailable)
"""What a child may wait for; a `ShardMismatch` does not go away by itself."""


class Executions:
    """What a worker executes: the port of its bodies, and the tray of their outcomes.

    ended_event: set whenever a body has ended, and `wake` with it.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        registry: Registry,
        limits: Limits,
        threads: Threads,
        served: Registry,
        wake: asyncio.Event,
        tracer: Tracer | None = None,
    ) -> None:
        self.clock = clock
        self.tracer = tracer
        self.bodies: dict[Lease, Body] = {}
        self.ended_event = asyncio.Event()
        self._wake = wake
        self.incarnation = ""
        self._store, self._catalogue, self._served = store, Catalogue(store, registry), served
        self._limits, self._threads = limits, threads
        self._loop = asyncio.get_running_loop()
        self.streams: Streams | None = None
        self._tray: list[tuple[Lease, Outcome]] = []
        self._over = 0
        self._ahead: dict[int, int] = {}
        self.completed = 0

    # -- what the turn calls

    def start(self, claims: Sequence[Claim]) -> None:
        """Begin what was handed out."""
        for claim in claims:
            workflow = self._served.find(claim.workflow)
            if workflow is None:  # a store hands out what was registered; somebody else's row, perhaps
                message = f"workflow {claim.workflow!r} is not served by this worker"
                self._limits.ended(1)
                self._put(claim.lease, set_aside(message, ""))
                continue
            if workflow.stream is not None and self.streams is not None:
                self.streams.began(workflow.name, claim.run_id)
            body = self.bodies[claim.lease] = Body(claim, workflow, self, self._loop)
            body.start()

    def hear(self, signals: Sequence[Signal]) -> None:
        """Pass news on: a cancel, or a wait that was settled. A body that has just parked hears it too."""
        for lease, cancel in signals:
            body = self.bodies.get(lease)
            if body is None:
                self._hear_late(lease)
            elif cancel:
                body.cancel()
            else:
                body.news()

    def _hear_late(self, lease: Lease) -> None:
        """News for a body that is over but not handed in yet: one that parked may have nothing left to wake
        it."""
        self._tray = [
            (of, Released() if of == lease and isinstance(outcome, Parked) else outcome)
            for of, outcome in self._tray
        ]

    def take(self) -> list[tuple[Lease, Outcome]]:
        """Empty the tray."""
        if self._over:
            self._limits.ended(self._over)
            self._over = 0
        self.ended_event.clear()
        taken, self._tray = self._tray, []
        return taken

    def put_back(self, outcomes: list[tuple[Lease, Outcome]]) -> None:
        """The store could not take them: they are handed in with the next ones."""
        self._tray = outcomes + self._tray

    def handed_in(self, outcomes: Sequence[tuple[Lease, Outcome]], refused: Sequence[Lease]) -> None:
        """The store has taken these, but for the refused ones."""
        if outcomes and self.streams is not None:
            self.streams.handed_in(outcomes, refused)

    def know(self, nows: Mapping[int, int]) -> None:
        """The store has said what time it is on its shards."""
        here = self.clock.monotonic()
        self._ahead.update({shard: now - here for shard, now in nows.items()})

    def lose_all(self) -> None:
        """The leases are gone: stop everything, hand in nothing."""
        self._tray.clear()
        for body in list(self.bodies.values()):
            body.lose()

    def release_all(self) -> None:
        """Stop everything, and hand it back."""
        for body in list(self.bodies.values()):
            body.release()

    @property
    def waiting(self) -> int:
        """Outcomes in the tray."""
        return len(self._tray)

    @property
    def threads(self) -> int:
        """Threads in which steps run."""
        return sum(body.threads for body in self.bodies.values())

    # -- the port of bodies

    def now(self, shard: int) -> int:
        """A shard's time, by the clock of this process since the shard last said it."""
        return self.clock.monotonic() + self._ahead.get(shard, 0)

    async def record(self, lease: Lease, entries: Sequence[Entry]) -> list[Entry]:
        """Append to a log, however long the store needs. Raises `LeaseLost`."""
        incarnation = self.incarnation
        return await self._insist(_run(lease), lambda: self._store.record(incarnation, lease, entries))

    async def read_log(self, lease: Lease) -> list[Entry]:
        """A run's log. Raises `LeaseLost` if the store is closed."""
        return await self._insist(_run(lease), lambda: self._store.read_log(lease))

    async def submit_child(
        self,
        workflow: object,
        params: Mapping[str, Any] | None,
        run_id: str,
        parent: str,
        options: Mapping[str, Any],
    ) -> str:
        """Submit a child, however long the store needs: under its id it is submitted once. Raises what speaks against
        the child itself.
        """

        async def submit() -> str:
            return await submit_child(self._store, self._catalogue, workflow, params, run_id, parent, options)

        return await self._insist(f"child {run_id} of run {parent}", submit, _PASSES)

    async def resend(self, lease: Lease, run_id: str, name: str, payload: bytes, event_id: str) -> None:
        """Send an event again that a wait took which nobody waited for any more."""
        await self._insist(_run(lease), lambda: self._store.send_event(run_id, name, payload, event_id))

    def thread(self, call: Callable[[], Any]) -> Future[Any]:
        """Run `call` in a thread."""
        return self._threads.run(call)

    def step_began(self) -> None:
        """A step executes."""
        self._limits.step_began()

    def step_ended(self) -> None:
        """A step ended."""
        self._limits.step_ended()

    def ended(self, body: Body, outcome: Outcome | None) -> None:
        """A body is over."""
        self.bodies.pop(body.claim.lease, None)
        if body.workflow.stream is not None and self.streams is not None:
            self.streams.body_over(body.claim.lease, body.workflow.name, body.claim.run_id)
        self._over += 1
        self.completed += 1
        self._put(body.claim.lease, outcome)
        # Last: what a program's own log handler or exporter raises keeps no outcome from being handed in.
        tell(body.claim, outcome)
        if self.tracer is not None:
            self.tracer.ended(body.claim, outcome)

    def _put(self, lease: Lease, outcome: Outcome | None) -> None:
        if outcome is not None:
            self._tray.append((lease, outcome))
        self.ended_event.set()
        self._wake.set()

    async def _insist(self, what: str, call: Callable[[], Awaitable[T]], passes: Errors = StoreError) -> T:
        """Call the store until it does it: a body can't go on without, and loses its lease if it lasts too
        long. passes: the errors after which it is called again."""
        pause = _FIRST_RETRY
        while True:
            try:
                return await call()
            except StoreClosed as error:
                raise LeaseLost(f"{what}: {error}") from error
            except passes as error:  # told once, not each time that it is called again
                level = logging.WARNING if pause == _FIRST_RETRY else logging.DEBUG
                _log.log(level, "the store can't do for now what %s needs: %s", what, error)
            await self.clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_RETRY)


def _run(lease: Lease) -> str:
    return f"run {lease.seq} of shard {lease.shard}"
