"""Knows when an event loop has nothing left to run."""

from __future__ import annotations

import asyncio


async def quiet(within: float) -> None:
    """Return once nothing but the passing of time, a thread or the outside world can make anything run.

    Raises TimeoutError if something still runs after so many real seconds, and RuntimeError on an event loop that is
    not asyncio's own.
    """
    await _Probe(asyncio.get_running_loop(), within).found


class _Probe:
    """A callback that puts itself at the end of the loop's queue until it is alone there, with others like
    it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, within: float) -> None:
        self.found: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._gives_up = loop.time() + within
        if not hasattr(loop, "_ready"):
            name = f"{type(loop).__module__}.{type(loop).__qualname__}"
            raise RuntimeError(
                f"pyrula.testing needs asyncio's own event loop, to know when all is done; this is {name}"
            )
        loop.call_soon(self.look)

    def look(self) -> None:
        """Ask again after all that is ready now, unless nothing is."""
        if self.found.done():
            return
        ready = self._loop._ready  # type: ignore[attr-defined]  # asyncio has no public way to ask
        if all(
            isinstance(getattr(handle._callback, "__self__", None), _Probe) for handle in ready.copy()
        ):  # threads add to it
            self.found.set_result(None)
        elif self._loop.time() > self._gives_up:
            self.found.set_exception(TimeoutError())
        else:
            self._loop.call_soon(self.look)
