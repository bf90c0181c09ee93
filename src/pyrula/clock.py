"""The only reader of time. Everything else is handed a `Clock`, or a number that came from one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from pyrula.errors import expect

SECOND = 1_000_000
"""Microseconds in a second; every duration and instant inside pyrula is an int of microseconds."""


@runtime_checkable
class Clock(Protocol):
    """A source of time that a test can move."""

    def wall(self) -> int:
        """Microseconds since the Unix epoch; may step in either direction."""

    def monotonic(self) -> int:
        """Microseconds since some moment; never steps back."""

    async def wait(self, event: asyncio.Event, timeout: int | None) -> bool:
        """Wait until `event` is set (True) or `timeout` µs have passed (False); None waits for ever."""

    async def sleep(self, duration: int) -> None:
        """Let `duration` µs pass."""


class SystemClock:
    """The machine's clocks."""

    def wall(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1000

    async def wait(self, event: asyncio.Event, timeout: int | None) -> bool:
        if event.is_set():
            return True
        if timeout is None:
            return await event.wait()
        if timeout <= 0:
            return False
        try:
            async with asyncio.timeout(timeout / SECOND):
                return await event.wait()
        except TimeoutError:
            return event.is_set()

    async def sleep(self, duration: int) -> None:
        await asyncio.sleep(max(0, duration) / SECOND)


def nanoseconds(clock: Clock) -> Callable[[], int]:
    """A clock's wall time in ns; the machine's without a detour."""
    return time.time_ns if type(clock) is SystemClock else lambda: clock.wall() * 1000


def check_clock(option: str, value: object) -> None:
    """Raise `ConfigurationError` unless it is a clock, or None."""
    right = value is None or (isinstance(value, Clock) and not isinstance(value, type))
    expect(option, value, right, "a clock (pyrula.testing.VirtualClock(), say), or None for the machine's")
