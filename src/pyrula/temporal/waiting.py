"""Awaits a permit in a coroutine, which the SDK may cancel from a foreign thread.

At shutdown the SDK's native thread calls `Task.cancel()`. With asyncio's debug mode on, any ordinary future
that the task awaits then refuses the foreign thread, the thread panics and shutdown never ends. `LoopFuture`
hands the request to its own loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyrula.temporal.permit import Permit


class LoopFuture(asyncio.Future[None]):
    """Await this and nothing else where the SDK may cancel.

    After the await, `cancel_requested` says that a foreign thread asked to cancel: a wake-up may have won.
    """

    cancel_requested = False

    def cancel(self, msg: Any = None) -> bool:
        """Cancel here, or ask the loop to from a foreign thread; False if there is nothing to cancel."""
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self.get_loop():
            return super().cancel(msg)
        if self.done():
            return False
        self.cancel_requested = True
        try:
            self.get_loop().call_soon_threadsafe(asyncio.Future.cancel, self)
        except RuntimeError:  # the loop is closed: nobody awaits this any more
            return False
        return True

    def wake(self) -> None:
        """End the wait, on the loop's own thread."""
        if not self.done():
            self.set_result(None)


async def settled(one: Permit, later: Callable[[Callable[[], object]], object]) -> Permit:
    """The permit of `one` as soon as it is granted; `later` takes what a finaliser may not do itself.

    Raises CancelledError, and nothing else.
    """
    loop = asyncio.get_running_loop()
    future = LoopFuture(loop=loop)

    def wake(_: Permit) -> None:
        with suppress(RuntimeError):  # a closed loop: whoever waited is gone
            loop.call_soon_threadsafe(future.wake)

    try:
        if not one.done():
            one.add_done_callback(wake)
            await future
        if future.cancel_requested:
            raise asyncio.CancelledError
    except GeneratorExit:  # the loop was closed under us, and this may run in a finaliser, under any lock
        later(one.withdraw)
        raise
    except BaseException:
        one.cancel()
        raise
    return one.result()
