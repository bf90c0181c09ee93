"""What a program's own sampler, id generator or processor raises: told, and in no run's way."""

from __future__ import annotations

import logging

_log = logging.getLogger("pyrula.telemetry")


class Trouble:
    """Tells the first error as a warning, and those that follow for whoever debugs: there may be one a span."""

    def __init__(self) -> None:
        self._level = logging.WARNING

    def tell(self, error: Exception) -> None:
        """error: what was raised where a span was begun or ended."""
        _log.log(
            self._level,
            "a trace lacks a span, as the tracer provider's own code raised %s: %s",
            type(error).__name__,
            error,
            exc_info=error,
        )
        self._level = logging.DEBUG
