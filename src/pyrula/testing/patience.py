"""Tells a load that takes long from something that never ends."""

from __future__ import annotations

import asyncio
from typing import Final

from pyrula.store.protocol import Store

_ANSWER_SECONDS: Final = 10.0
"""Real seconds for a store that is at work to say how many runs are left."""


class Patience:
    """How long, in real time, is waited at one moment of virtual time: at least `seconds`, and beyond that as long as
    in each half of that fewer runs are left than before it. So the number of runs is no matter, and what begins anew
    again and again is found, whatever else comes to its end meanwhile.
    """

    def __init__(self, store: Store, seconds: float) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._look_every = seconds / 2
        self._look_at = self._started + self._look_every
        self._left: int | None = None

    @property
    def look_in(self) -> float:
        """Real seconds until it is time to ask whether it `goes_on`."""
        return max(0.0, self._look_at - self._loop.time())

    @property
    def spent(self) -> float:
        """Real seconds since it began."""
        return self._loop.time() - self._started

    async def goes_on(self) -> bool:
        """Whether to wait on."""
        before = self._left
        try:
            self._left = await asyncio.wait_for(self._count(), _ANSWER_SECONDS)
        except TimeoutError:
            return False
        self._look_at = self._loop.time() + self._look_every
        return before is None or self._left < before

    async def _count(self) -> int:
        told = await self._store.overview()
        return int(sum(told["executing"].values()) + told["queued"] + sum(told["parked"].values()))
