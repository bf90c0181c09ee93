"""A store whose calls are counted: `Worker(observed(store, counts))`. A store that is not wrapped has no such code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pyrula.model.lease import Lease
from pyrula.model.step import Entry
from pyrula.store.protocol import (
    Handed,
    Store,
    Submission,
    Submitted,
    TriggerEvent,
    TurnRequest,
    check_store,
)
from pyrula.telemetry.counts import Counts, check_counts
from pyrula.telemetry.wrapped import Wrapped


class _Observed(Wrapped):
    """Everything but the calls that are counted goes straight to the store."""

    def __init__(self, store: Store, counts: Counts) -> None:
        super().__init__(store)
        self._counts = counts

    async def turn(self, request: TurnRequest) -> Handed:
        clock = self._store.clock
        began = clock.monotonic()
        handed = await self._store.turn(request)
        self._counts.turned(request, handed, clock.monotonic() - began)
        return handed

    async def record(self, incarnation: str, lease: Lease, entries: Sequence[Entry]) -> list[Entry]:
        written = await self._store.record(incarnation, lease, entries)
        self._counts.recorded(written)
        return written

    async def report(self, incarnation: str, facts: bytes) -> None:
        self._counts.reported(facts)
        await self._store.report(incarnation, facts)

    async def submit(self, submissions: Sequence[Submission]) -> list[Submitted]:
        answers = await self._store.submit(submissions)
        for submission, answer in zip(submissions, answers, strict=True):
            self._counts.submitted[submission.workflow] += answer.created
        return answers

    async def trigger(self, events: Sequence[TriggerEvent]) -> list[str | None]:
        answers = await self._store.trigger(events)
        for event in events:
            self._counts.triggered[event.workflow] += 1
        return answers


def observed(store: Store, counts: Counts) -> Store:
    """`store`, with its turns, claims, outcomes, steps and submits counted in `counts`."""
    check_store("observed: store", store)
    check_counts("observed: counts", counts)
    return cast("Store", _Observed(store, counts))
