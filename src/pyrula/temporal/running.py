"""Knows when the worker that a limiter serves begins to stop, and when it has stopped."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

from temporalio.plugin import SimplePlugin
from temporalio.worker import Worker

from pyrula.temporal.executions import Lives
from pyrula.temporal.gate import Gate

DRAIN = 0.005
"""Seconds without Python's lock before the stop: the SDK's call takes a lock of its own while it keeps Python's, and a
thread that hands out a local activity has that one while it waits for Python's. Then neither would go on.
"""


class FollowsWorker(SimplePlugin):
    """A worker's plugin: as it begins to stop nothing of it waits, and once it has stopped nothing lives on it."""

    def __init__(self, gate: Gate, lives: Lives) -> None:
        super().__init__("pyrula.temporal")
        self._gate = gate
        self._lives = lives

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        """Run the worker to its end."""
        self._gate.open(before_stopping(worker, self._gate.let_go))
        try:
            await super().run_worker(worker, next)
        finally:
            self._gate.close()
            self._lives.end()


def before_stopping(worker: Worker, tell: Callable[[], None]) -> bool:
    """Call `tell` on the worker's loop as it begins to stop; False if this SDK can't be made to.

    The SDK tells nobody. Every way to stop, `shutdown`, a cancelled `run` and a fatal error, comes to this one call
    into its native part.
    """
    bridge: Any = getattr(worker, "_bridge_worker", None)
    stop = getattr(bridge, "initiate_shutdown", None)
    if stop is None:
        return False

    def told() -> None:
        del bridge.initiate_shutdown  # it is the class's again
        tell()
        threading.Event().wait(DRAIN)
        stop()

    bridge.initiate_shutdown = told
    return True
