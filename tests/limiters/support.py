"""What limiter tests are made of: a clock that the test moves, and figures of a machine that it sets."""

import asyncio
from dataclasses import dataclass, field

from pyrula.clock import SECOND
from pyrula.limiters import Hub
from pyrula.limiters.asking import Ask, Group
from pyrula.limiters.os import OsReadings


class HandClock:
    """Moves only when told to."""

    def __init__(self, at: float = 0.0) -> None:
        self.at = round(at * SECOND)

    def wall(self) -> int:
        return self.at

    def monotonic(self) -> int:
        return self.at

    async def wait(self, event: asyncio.Event, timeout: int | None) -> bool:
        raise AssertionError("limiters never wait")

    async def sleep(self, duration: int) -> None:
        raise AssertionError("limiters never sleep")

    def to(self, seconds: float) -> None:
        self.at = round(seconds * SECOND)


@dataclass
class FakeMachine(OsReadings):
    """A machine whose figures a test sets; an exception in place of a figure is raised."""

    mem: float | Exception = 10.0
    loads: tuple[float, float, float] | Exception = (0.0, 0.0, 0.0)
    disks: dict[str, float | Exception] = field(default_factory=lambda: {"/": 50.0})
    asked: dict[str, int] = field(default_factory=dict)

    def _answer(self, name, value):
        self.asked[name] = self.asked.get(name, 0) + 1
        if isinstance(value, Exception):
            raise value
        return value

    def memory(self):
        return self._answer("mem", self.mem)

    def load(self):
        return self._answer("load", self.loads)

    def disk(self, mount):
        return self._answer(mount, self.disks[mount])

    def mounts(self):
        return tuple(self.disks)


def made_hub(at: float = 0.0, machine: FakeMachine | None = None) -> tuple[Hub, HandClock]:
    clock = HandClock(at)
    return Hub(clock, machine or FakeMachine(), threaded=False), clock


class Asked(Ask):
    """Hands what it is told to `tell`: True that it is granted, False that it is to be looked at sooner."""

    def __init__(self, limiter, kind, tell, group):
        super().__init__(limiter, kind, group)
        self.tell = tell

    def told(self):
        self.tell(True)

    def sooner(self):
        self.tell(False)


class Guarded(Group):
    """Pollers that may hold one more place when `allow` says so."""

    def __init__(self, allow):
        super().__init__()
        self.allow = allow


def asked(limiter, kind, tell, allow=None):
    """One place, asked for."""
    ask = Asked(limiter, kind, tell, Group() if allow is None else Guarded(allow))
    limiter.ask(ask)
    return ask


def run_through(limiter, clock, kind, ready, *, until, step=0.001, check=0.5):
    """A worker in virtual time: `ready` are the instants at which runs become ready; returns when each began.

    It looks when a run becomes ready, at `retry_at` when held, and never between; executions end at once.
    """
    begun, queue, now = [], sorted(ready), 0.0
    while queue and now <= until:
        if queue[0] > now:
            now = queue[0]
        clock.to(now)
        waiting = sum(1 for at in queue if at <= now + 1e-9)
        got = limiter.reserve(kind, waiting)
        for _ in range(got):
            limiter.begin(kind)
            limiter.end(kind)
            begun.append(round(now, 6))
            queue.pop(0)
        if got == 0:
            retry = limiter.room(kind).retry_at
            assert retry is not None
            assert retry > clock.at
            now = retry / SECOND
    return begun
