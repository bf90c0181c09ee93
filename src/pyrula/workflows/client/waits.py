"""Everybody who waits for a run to end, behind one question to the store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pyrula.store import loops
from pyrula.store.protocol import Store
from pyrula.workflows.client.ending import unknown_run

Ending = tuple[str, bytes | None]
"""Final state, and JSON of the result or the error."""


class _Wait:
    """One caller. done is set once `ending` or `error` is."""

    def __init__(self) -> None:
        self.done = asyncio.Event()
        self.ending: Ending | None = None
        self.error: BaseException | None = None


class Waits:
    """A thousand callers that wait for a thousand runs cost one listener and one read per nudge, not a
    thousand.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begin()

    def _begin(self) -> None:
        self._waiting: dict[str, list[_Wait]] = {}
        self._new: list[str] = []
        self._joined = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None

    async def ended(self, run_id: str, timeout: int | None) -> Ending | None:
        """What the run ended with, once it has; None after `timeout` µs."""
        here = loops.moved("this client", self._loop)
        if here is not None:  # whoever waited on an earlier loop is gone with it
            self._loop = here
            self._begin()
        wait = _Wait()
        self._waiting.setdefault(run_id, []).append(wait)
        self._new.append(run_id)
        self._joined.set()
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._ask())
        try:
            await self._store.clock.wait(wait.done, timeout)
        finally:
            self._drop(run_id, wait)
        if wait.error is not None:
            raise wait.error
        if wait.ending is None:  # it may have ended just as the wait did
            (found,) = await self._store.results([run_id])
            return None if found is None or found[0] == "open" else found
        return wait.ending

    def _drop(self, run_id: str, wait: _Wait) -> None:
        waits = self._waiting.get(run_id, [])
        if wait in waits:
            waits.remove(wait)
        if not waits:
            self._waiting.pop(run_id, None)
        if not self._waiting and self._asking is not None:
            self._asking.cancel()
            self._asking = None

    async def _ask(self) -> None:
        try:
            while True:
                # The listener is there before the look: an end in between is seen by the one or the other.
                nudged = asyncio.ensure_future(self._store.finished(list(self._waiting), None))
                try:
                    await asyncio.sleep(0)
                    self._new.clear()
                    await self._look(list(self._waiting))
                    await self._welcome(nudged)
                finally:
                    nudged.cancel()
                if nudged.done() and not nudged.cancelled():
                    nudged.result()
        except Exception as error:
            for wait in [wait for waits in self._waiting.values() for wait in waits]:
                wait.error = error
                wait.done.set()

    async def _welcome(self, nudged: asyncio.Future[None]) -> None:
        """Until the nudge, look only for the runs of those who join."""
        while not nudged.done():
            if not self._new:
                self._joined.clear()
            joined = asyncio.ensure_future(self._joined.wait())
            try:
                await asyncio.wait((nudged, joined), return_when=asyncio.FIRST_COMPLETED)
            finally:
                joined.cancel()
            new, self._new = self._new, []
            await self._look(new)

    async def _look(self, run_ids: Sequence[str]) -> None:
        for run_id, found in zip(run_ids, await self._store.results(run_ids), strict=True):
            if found is not None and found[0] == "open":
                continue
            for wait in self._waiting.get(run_id, ()):
                if found is None:  # or a mistyped id would be waited for until the end of time
                    wait.error = unknown_run(run_id)
                wait.ending = found
                wait.done.set()
