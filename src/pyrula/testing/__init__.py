"""Tests of workflows without waiting: a client, a worker, and a clock that jumps from event to event."""

from pyrula.testing.clock import START, VirtualClock
from pyrula.testing.environment import Environment, NothingDue, NotSettled

__all__ = ["START", "Environment", "NotSettled", "NothingDue", "VirtualClock"]
