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
_PATIENCE: Final = 6
"""Times `_THREADS` that a body without threads is waited for: it may wait for a store that is away. One that goes on
after that catches each cancellation, and nothing but the end of the process ends it."""


async def stop(lives: Lives, clock: Clock, grace: int, stuck: Callable[[str], None] | None) -> None:
    """Return when all is handed in. grace: µs. stuck: called if threads go on for 5 s more, or bodies for 30; None:
    they are waited for."""
    lives.stop_asking()
    if grace > 0 and await clock.wait(lives.over, grace):
        return
    handed_back = [body.claim.run_id for body in lives.executions.bodies.values()]
    lives.executions.release_all()
    if handed_back:  # said afterwards: what a log handler raises keeps no run from being handed back
        more = ", …" if len(handed_back) > 10 else ""
        _log.info(
            "stopping: handing back %d executing (%s%s)", len(handed_back), ", ".join(handed_back[:10]), more
        )
    looks = 0
    while not await clock.wait(lives.over, _THREADS):
        looks += 1
        left = list(lives.executions.bodies.values())
        threaded = [body for body in left if body.threads]
        runs = ", ".join(body.claim.run_id for body in (threaded or left)[:10])
        if stuck is not None and threaded:
            stuck(f"stopped, but threads of runs {runs} go on")
        elif stuck is not None and left and looks >= _PATIENCE:
            stuck(
                f"stopped, but bodies of runs {runs} go on: they catch asyncio.CancelledError and do not end"
            )
        what = (
            "what ended to be handed in"
            if not left
            else f"{'threads' if threaded else 'bodies'} of runs {runs}"
        )
        _log.warning("stopping: waiting for %s", what)
