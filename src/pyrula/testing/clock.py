"""A clock that stands still until it is told to move."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta

from pyrula.clock import SECOND
from pyrula.errors import InvalidPayload, expect, shown
from pyrula.model.duration import Duration, to_us

START = datetime(2026, 1, 5, tzinfo=UTC)
"""What the wall clock says at first: a Monday, at midnight."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class VirtualClock:
    """Implements `pyrula.clock.Clock`: time passes only in `move`, so a test of a year takes no longer than
    its events.

    start: what the wall clock says at first (an aware datetime).
    """

    def __init__(self, start: datetime = START) -> None:
        self._monotonic = 0
        given: object = start  # a caller without a type checker may give anything
        aware = isinstance(given, datetime) and given.utcoffset() is not None
        expect(
            "VirtualClock: start", start, aware, "an aware datetime, such as datetime(2026, 1, 5, tzinfo=UTC)"
        )
        self._wall_offset = (start - _EPOCH) // timedelta(microseconds=1)
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._number = 0

    def wall(self) -> int:
        return self._wall_offset + self._monotonic

    def monotonic(self) -> int:
        return self._monotonic

    @property
    def now(self) -> float:
        """Seconds since the clock was made; a wall clock that is stepped does not change it."""
        return self._monotonic / SECOND

    @property
    def today(self) -> datetime:
        """What the wall clock says, in UTC."""
        return _EPOCH + timedelta(microseconds=self.wall())

    def step_wall(self, seconds: Duration) -> None:
        """Set the wall clock forward, or back (negative), while `now` stands still. A store, which has only the wall to
        tell what passes between processes, takes a step forward for time that has passed, and one back for none."""
        try:
            self._wall_offset += to_us(seconds)
        except ValueError as error:
            raise InvalidPayload(f"step_wall: seconds is {shown(seconds)}; it must be {error}") from None

    async def sleep(self, duration: int) -> None:
        """Let `duration` µs pass: returns once somebody has moved the clock that far."""
        if duration <= 0:
            await asyncio.sleep(0)
        else:
            await self._alarm(duration)

    async def wait(self, event: asyncio.Event, timeout: int | None) -> bool:
        """Wait until `event` is set (True) or `timeout` µs have passed (False); None waits for ever."""
        if event.is_set():
            return True
        if timeout is None:
            return await event.wait()
        if timeout <= 0:
            return False
        alarm = self._alarm(timeout)
        waiting = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait((alarm, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            alarm.cancel()
            waiting.cancel()
        return event.is_set()

    def next_due(self) -> int | None:
        """When (monotonic µs) the earliest of all who wait is due; None if nobody waits for time to pass."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def move(self, to: int) -> None:
        """Set the time to `to` (monotonic µs, not before now) and wake those who are due, in the order of
        their times.
        """
        if to < self._monotonic:
            raise ValueError(f"time moves forward: it is {self._monotonic} µs, not to be set to {to}")
        self._monotonic = to
        while self._sleepers and self._sleepers[0][0] <= to:
            alarm = heapq.heappop(self._sleepers)[2]
            if not alarm.done():
                alarm.set_result(None)

    def _alarm(self, duration: int) -> asyncio.Future[None]:
        alarm: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._number += 1  # equal times wake in the order in which they began to wait
        heapq.heappush(self._sleepers, (self._monotonic + duration, self._number, alarm))
        return alarm
