"""Figures and traces. Nothing here is called by a worker or a client that was not given it: off, it costs nothing."""

from pyrula.telemetry.counts import Counts
from pyrula.telemetry.observed import observed

__all__ = ["Counts", "observed"]
