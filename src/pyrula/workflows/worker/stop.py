"""Stop: claim no more, give bodies the grace to end, hand the rest back, wait for threads that can't be
stopped."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pyrula.clock import SECOND, Clock
from pyrula.workflows.worker.lives import Lives

_log = logging.getLogger("pyrula.worker")
_THREADS: Final = 5 * SECOND


async def stop(lives: Lives, clock: Clock, grace: int, stuck: Callable[[str], None] | None) -> None:
    """Return when all is handed in. grace: µs. stuck: called if threads go on for 5 s more; None: they are
    waited for."""
    lives.stop_asking()
    if grace > 0 and await clock.wait(lives.over, grace):
        return
    lives.executions.release_all()
    while not await clock.wait(lives.over, _THREADS):
        bodies = [body for body in lives.executions.bodies.values() if body.threads]
        runs = ", ".join(body.claim.run_id for body in bodies[:10])
        if bodies and stuck is not None:
            stuck(f"stopped, but threads of runs {runs} go on")
        _log.warning(
            "stopping: waiting for %s", f"threads of runs {runs}" if runs else "bodies that do not end"
        )
