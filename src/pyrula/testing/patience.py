"""Tells a load that takes long from something that never ends."""

from __future__ import annotations

import asyncio
from typing import Final

from pyrula.store.protocol import Store
from pyrula.testing.clock import VirtualClock

_MINUTE: Final = 60_000_000
_MOST: Final = 10
_ANSWER_SECONDS: Final = 10.0
"""Real seconds for a store that is at work to say how many runs have ended."""


class Patience:
    """How long, in real time, is waited at one moment of virtual time: `seconds`, beyond that as long as some run ends
    in each half of them, and beyond ten times that as long as ever fewer runs are left. So a load takes as long as it
    needs, and what begins anew again and again is found: a run that is never over, and runs that submit one another.
    """

    def __init__(self, store: Store, clock: VirtualClock, seconds: float) -> None:
        self._store, self._clock, self._seconds = store, clock, seconds
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._look_at = self._started + seconds / 2
        self._seen: tuple[int, int] | None = None

    @property
    def look_in(self) -> float:
        """Real seconds until it is time to ask whether it `goes_on`."""
        return max(0.0, self._look_at - self._loop.time())

    @property
    def spent(self) -> str:
        """For how long, and what did not happen."""
        spent = self._loop.time() - self._started
        what = "no run has ended" if spent < _MOST * self._seconds else "no fewer runs are left"
        return f"after {spent:.0f} s of real time, and though for {self._seconds / 2:g} s {what},"

    async def goes_on(self) -> bool:
        """Whether to wait on."""
        before = self._seen
        try:
            self._seen = ended, left = await asyncio.wait_for(self._look(), _ANSWER_SECONDS)
        except TimeoutError:
            return False
        now = self._loop.time()
        self._look_at = now + self._seconds / 2
        if before is None:
            return True
        return ended > before[0] if now - self._started < _MOST * self._seconds else left < before[1]

    async def _look(self) -> tuple[int, int]:
        """How many runs have ended in this minute of virtual time, and how many are left."""
        ended, _ = await self._store.ended(self._clock.wall() // _MINUTE)
        told = await self._store.overview()
        return ended, sum(told["executing"].values()) + told["queued"] + sum(told["parked"].values())
