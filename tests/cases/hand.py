"""A worker that a test plays by hand: it registers and takes turns, and runs no body."""

from __future__ import annotations

from typing import Any

import msgspec

from pyrula.clock import SECOND
from pyrula.model.lease import Lease
from pyrula.model.outcome import Outcome
from pyrula.store.protocol import Handed, Registration, Store, TurnRequest
from pyrula.workflows import Workflow


class Hand:
    """One incarnation of a worker. lease: seconds."""

    def __init__(self, store: Store, served: Workflow[..., Any], name: str, lease: float = 30) -> None:
        self.store, self.name, self.lease = store, name, lease
        self._served = served

    async def register(self) -> None:
        """Come to the store."""
        served = self._served
        await self.store.register(
            Registration(
                incarnation=self.name,
                worker_id=self.name,
                lease=round(self.lease * SECOND),
                declarations={served.name: msgspec.json.encode(served.declaration())},
                codes={served.name: served.code},
            )
        )

    async def turn(self, *outcomes: tuple[Lease, Outcome], wanted: int = 0) -> Handed:
        """Hand these in, and ask for so many runs."""
        return await self.store.turn(TurnRequest(incarnation=self.name, outcomes=outcomes, wanted=wanted))
