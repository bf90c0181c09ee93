"""Threads for steps that are plain functions: as many as run at once, made when they are needed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

_PER_RUN: Final = 4
_LEAST: Final = 32


class Threads:
    """Up to four threads for each run that may execute; steps beyond that wait for one to be free."""

    def __init__(self, max_concurrent_runs: int) -> None:
        self._most = max(_LEAST, _PER_RUN * max_concurrent_runs)
        self._pool: ThreadPoolExecutor | None = None

    def run(self, call: Callable[[], Any]) -> Future[Any]:
        """Run `call` in a thread."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._most, thread_name_prefix="pyrula-step")
        return self._pool.submit(call)

    def close(self) -> None:
        """Let threads end that have nothing to do. Waits for nobody."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None
