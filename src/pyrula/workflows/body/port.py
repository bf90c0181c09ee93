"""What a worker lends to the bodies it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from contextvars import Context
from typing import TYPE_CHECKING, Any, Protocol

from pyrula.clock import Clock
from pyrula.model.lease import Lease
from pyrula.model.outcome import Outcome
from pyrula.model.step import Entry
from pyrula.store.protocol import Claim

if TYPE_CHECKING:
    from pyrula.workflows.body.body import Body


class Tracer(Protocol):
    """What follows runs and steps for a trace (pyrula.telemetry.otel). Where there is none, nothing is called."""

    def began(self, claim: Claim, context: Context) -> None:
        """A claimed run begins; `context` is what its body will run in."""

    def ended(self, claim: Claim, outcome: Outcome | None) -> None:
        """It is over, and this is handed in."""

    def step(self, claim: Claim, name: str) -> AbstractContextManager[object] | None:
        """Around one try of a step; None: there is nothing to be told of it."""


class Port(Protocol):
    """Every call is made on the event loop, `thread`'s callable runs off it."""

    clock: Clock
    tracer: Tracer | None

    def now(self, shard: int) -> int:
        """The time of a shard of the store, in µs, as well as it is known here."""

    async def record(self, lease: Lease, entries: Sequence[Entry]) -> list[Entry]:
        """Append to the log; the entries as the store settled them. Raises `LeaseLost`."""

    async def read_log(self, lease: Lease) -> list[Entry]: ...

    async def submit_child(
        self,
        workflow: object,
        params: Mapping[str, Any] | None,
        run_id: str,
        parent: str,
        options: Mapping[str, Any],
    ) -> str:
        """Submit a run as a child of `parent`; its run id. Raises what a client's `submit` raises."""

    async def resend(self, lease: Lease, run_id: str, name: str, payload: bytes, event_id: str) -> None:
        """Send an event again that a wait took which nobody waited for any more."""

    def thread(self, call: Callable[[], Any]) -> Future[Any]:
        """Run `call` in a thread of its own."""

    def step_began(self) -> None: ...

    def step_ended(self) -> None: ...

    def ended(self, body: Body, outcome: Outcome | None) -> None:
        """The body, its tasks and its threads are over. None: nothing is to be handed in."""
