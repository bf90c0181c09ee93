"""A future that may be cancelled from a foreign thread.

At shutdown the SDK's native thread calls `Task.cancel()`. With asyncio's debug mode on, any ordinary future
that the task awaits then refuses the foreign thread, the thread panics and shutdown never ends. This one
hands the request to its own loop.
"""

from __future__ import annotations

import asyncio
from typing import Any


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
