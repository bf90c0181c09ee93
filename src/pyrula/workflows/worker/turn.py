"""The turn, the map of a worker: ask the limiters, hand in, start what came, pass news on, rest until
something is due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from pyrula import ids
from pyrula.clock import SECOND, Clock
from pyrula.errors import PyrulaError, StoreClosed
from pyrula.model.lease import Lease
from pyrula.model.outcome import Outcome
from pyrula.store.protocol import Handed, Store, TurnRequest
from pyrula.workflows.body.ending import unstorable
from pyrula.workflows.worker.execute import Executions
from pyrula.workflows.worker.limits import Limits, Room

_log = logging.getLogger("pyrula.worker")
FULL_PAUSE: Final = SECOND // 20
"""µs between turns of a worker that has no room: they only bring cancels and news, which may take up to a
second."""
_FIRST_RETRY: Final = SECOND // 20
_LONGEST_RETRY: Final = 5 * SECOND


class Turns:
    """Takes turns until there is a reason not to. wake: set by the store's nudges and by whatever else is
    news."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        executions: Executions,
        limits: Limits,
        wake: asyncio.Event,
        most: int,
        proved: Callable[[int], None],
    ) -> None:
        self.stopping = False
        """Ask for nothing more; turns end when all is handed in."""
        self.lost: str | None = None
        """Why this incarnation is over, if it is."""
        self.resting = False
        """Whether no turn is under way or due."""
        self._store, self._clock, self._executions = store, clock, executions
        self._limits, self._wake, self._most = limits, wake, most
        self._pause = 0
        self._failure: Exception | None = None
        self._proved = proved

    async def until_stopped(self, *, drain: bool = False) -> None:
        """Take turns until stopped, or lost; with `drain`, until nothing is due now and nothing executes."""
        executions = self._executions
        left_until = 0  # what other workers have not taken by then is due here
        while self.lost is None:
            self._wake.clear()
            outcomes = executions.take()
            busy = bool(outcomes or executions.bodies)
            if self.stopping and not busy:
                return
            room = Room(0) if self.stopping else self._limits.room(self._most - len(executions.bodies))
            handed = await self._turn(outcomes, room.runs)
            if handed is None:
                executions.put_back(await self._apart(outcomes))
                if self._pause:
                    self.resting = True
                    await self._clock.wait(
                        executions.ended_event, round(self._pause * (0.5 + ids.chance() / 2))
                    )
                    self.resting = False
                continue
            idle = not (handed.claims or executions.bodies or executions.waiting)
            if handed.waits and handed.next_in is not None:
                left_until = self._clock.monotonic() + handed.next_in
            if drain and idle and room.runs and handed.next_in != 0 and self._clock.monotonic() >= left_until:
                return
            if self.stopping and idle:
                return
            if handed.limiters is not None:  # what held it back may be over
                self._limits.take_up(*handed.limiters)
                await asyncio.sleep(0)
                continue
            await self._rest(handed.next_in, room)

    async def _apart(self, outcomes: list[tuple[Lease, Outcome]]) -> list[tuple[Lease, Outcome]]:
        """A turn failed: if nobody foresaw why, find out whose outcome it was, so that it holds up no other
        run. That run fails instead, told why. Answers the outcomes still to be handed in."""
        left = []
        if not outcomes or self._foresaw() or await self._turn([], 0) is None:
            return outcomes  # whatever it is, it is not the outcomes
        for lease, outcome in outcomes:
            for last in (outcome, None):
                tried = last or unstorable(outcome, self._failure)
                if await self._turn([(lease, tried)], 0) is not None:
                    break
                if self._foresaw():
                    left.append((lease, tried))
                    break
            else:
                _log.error(
                    "lease %s: not even its failure can be stored; it lasts as long as this worker", lease
                )
        return left

    def _foresaw(self) -> bool:
        """Whether the last turn that failed did so for a reason that has a name."""
        return isinstance(self._failure, PyrulaError)

    async def _turn(self, outcomes: list[tuple[Lease, Outcome]], wanted: int) -> Handed | None:
        """One turn; None if the store could not take it, and nothing has changed."""
        executions = self._executions
        request = TurnRequest(
            incarnation=executions.incarnation,
            outcomes=tuple(outcomes),
            wanted=wanted,
            limiters=self._limits.number,
        )
        claims, asked = 0, self._clock.monotonic()
        try:
            handed = await self._store.turn(request)
            claims = len(handed.claims)
        except StoreClosed as error:  # it never opens again: there is nothing to wait for
            self.lose(str(error))
            self._failure = error
            return None
        except Exception as error:  # whatever it is, outcomes must not be lost nor the worker die of it
            again = self._pause > 0 or isinstance(error, PyrulaError)  # a traceback is told once
            _log.error("turn failed: %s: %s", type(error).__name__, error, exc_info=not again)
            self._failure = error
            self._pause = min(2 * self._pause or _FIRST_RETRY, _LONGEST_RETRY)
            return None
        finally:
            self._limits.began(wanted, claims)
        self._pause = 0
        executions.know(handed.nows or {0: handed.now})
        executions.handed_in(outcomes, handed.refused)
        if handed.lost:
            self.lose("the store has given this worker up: its leases had lapsed")
        else:
            self._proved(asked)
        if self.lost is None:
            executions.start(handed.claims)
        else:  # its leases may lapse before such a body could be stopped: never begun, its run waits for that
            self._limits.ended(claims)
        executions.hear(handed.signals)
        return handed

    def lose(self, why: str) -> None:
        """This incarnation is over: stop its bodies, and hand nothing in."""
        if self.lost is None:
            self.lost = why
            _log.error("worker lost its leases and stops %d bodies: %s", len(self._executions.bodies), why)
            self._executions.lose_all()
            self._wake.set()

    async def _rest(self, due: int | None, room: Room) -> None:
        """Wait until something is due, ended or news. Without room, news is looked at now and then only."""
        ended = self._executions.ended_event
        if due == 0 and room.runs:
            await asyncio.sleep(0)  # let bodies begin
            return
        if not room.runs:
            self.resting = True
            await self._clock.wait(
                ended, FULL_PAUSE if room.look_in is None else min(FULL_PAUSE, room.look_in)
            )
            self.resting = False
            if ended.is_set():
                return
            due = None if due is None else max(0, due - FULL_PAUSE)
            if room.look_in is not None:
                left = max(0, room.look_in - FULL_PAUSE)
                due = left if due is None else min(due, left)
        self.resting = True
        await self._clock.wait(self._wake, due)
        self.resting = False
