"""Knows when the worker that a limiter serves has stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from temporalio.plugin import SimplePlugin
from temporalio.worker import Worker

from pyrula.temporal.executions import Lives


class EndsLives(SimplePlugin):
    """A worker's plugin: once the worker has stopped, no execution lives on it."""

    def __init__(self, lives: Lives) -> None:
        super().__init__("pyrula.temporal")
        self._lives = lives

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        """Run the worker to its end."""
        try:
            await super().run_worker(worker, next)
        finally:
            self._lives.end()
