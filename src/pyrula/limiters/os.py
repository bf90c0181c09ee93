"""What the machine can still bear: memory, load and disks, sampled once per process for all its workers.

Source: the seed's OS limiter. `mem` and disks are percent used, `cpu1/5/15` load averages times 256 (256 is
one busy core). What can't be read is -1, which holds nobody back.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Final

import psutil

from pyrula.clock import SECOND
from pyrula.errors import ConfigurationError
from pyrula.limiters.cgroup import CgroupMemory
from pyrula.limiters.config import LOADS, OsLimitable
from pyrula.limiters.levels import LimitedBy

log = logging.getLogger(__name__)

UNKNOWN: Final = -1.0
EVERY: Final = {
    "mem": 5 * SECOND,
    "cpu1": 1 * SECOND,
    "cpu5": 5 * SECOND,
    "cpu15": 15 * SECOND,
    "disk": 60 * SECOND,
}
"""How often each is sampled, µs."""


class OsReadings:
    """The machine's own figures; each call may raise OSError, and a mount may hang."""

    def __init__(self, cgroup: CgroupMemory | None = None) -> None:
        self.cgroup = cgroup or CgroupMemory()

    def memory(self) -> float:
        """Percent used, of the host or of a control group around this process, whichever is fuller."""
        host = psutil.virtual_memory()
        if host.total <= 0:
            return UNKNOWN
        return max(host.percent, self.cgroup.percent(host.total) or 0.0)

    def load(self) -> tuple[float, float, float]:
        """Load averages over 1, 5 and 15 minutes, of the whole host even inside a container."""
        if not hasattr(os, "getloadavg"):
            raise OSError("this system has no load average")
        return os.getloadavg()

    def disk(self, mount: str) -> float:
        """Percent used of the file system that holds `mount`."""
        return psutil.disk_usage(mount).percent

    def mounts(self) -> tuple[str, ...]:
        """What is mounted."""
        return tuple(sorted({part.mountpoint for part in psutil.disk_partitions(all=True)}))


class OsSampler:
    """Keeps the newest value of all that somebody watches; each source is asked once per interval.

    `refresh` does what is due. With `hung_mounts_apart` each disk is read on a thread of its own that may
    hang without holding up memory and load; a disk that did not answer in its interval reads -1.
    """

    def __init__(
        self, readings: OsReadings, every: Mapping[str, int] = EVERY, *, hung_mounts_apart: bool = False
    ) -> None:
        self.readings = readings
        self.values: dict[OsLimitable, float] = {}
        self._every = {**EVERY, **every}
        self._due: dict[OsLimitable, int] = {}
        self._told: set[OsLimitable] = set()
        self._apart = hung_mounts_apart
        self._probes: dict[OsLimitable, threading.Thread] = {}

    def watch(self, wanted: Mapping[OsLimitable, float], now: int) -> None:
        """Sample what is `wanted` from now on. Raises ConfigurationError for a mount that does not exist."""
        for name in wanted:
            if isinstance(name, tuple) and name not in self.values:
                self._check_mount(name[1])
        for name in wanted:
            self._due.setdefault(name, now)
        self.refresh(now)

    def keep(self, wanted: Set[OsLimitable]) -> None:
        """Sample only what is still `wanted`."""
        for name in tuple(self._due):
            if name not in wanted:
                del self._due[name]
                self.values.pop(name, None)

    def resample(self, every: Mapping[str, int], now: int) -> None:
        """Change how often (µs) each is sampled; all are due now."""
        self._every.update(every)
        for name in tuple(self._due):
            self._due[name] = now

    def refresh(self, now: int) -> bool:
        """Take the samples that are due; whether a value changed."""
        before = dict(self.values)
        load: tuple[float, float, float] | None = None
        for name, due in tuple(self._due.items()):
            if now < due:
                continue
            self._due[name] = now + self.interval(name)
            if isinstance(name, tuple):
                self._disk(name)
            elif name in LOADS:
                load = load or self._load(name)
                self.values[name] = load[LOADS.index(name)]
            else:
                self.values[name] = self._read(name, lambda: round(self.readings.memory()))
        return before != self.values

    def interval(self, name: OsLimitable) -> int:
        """How often `name` is sampled, µs."""
        return self._every["disk" if isinstance(name, tuple) else name]

    @property
    def next_due(self) -> int | None:
        """When the next sample is due, µs; None while nothing is watched."""
        return min(tuple(self._due.values()), default=None)

    def held_by(self, limits: Mapping[OsLimitable, float]) -> list[LimitedBy]:
        """Every limit that is reached."""
        values = self.values
        return [
            LimitedBy("os", name, "os", values[name], limit)
            for name, limit in limits.items()
            if values.get(name, UNKNOWN) >= limit
        ]

    def _load(self, name: OsLimitable) -> tuple[float, float, float]:
        loads: list[tuple[float, float, float]] = []

        def read() -> float:
            loads.append(self.readings.load())
            return 0.0

        self._read(name, read)
        one, five, fifteen = loads[0] if loads else (UNKNOWN / 256,) * 3
        return round(one * 256), round(five * 256), round(fifteen * 256)

    def _disk(self, name: tuple[str, str]) -> None:
        if not self._apart:
            self.values[name] = self._read(name, lambda: self.readings.disk(name[1]))
            return
        probe = self._probes.get(name)
        if probe is not None and probe.is_alive():
            self.values[name] = UNKNOWN
            self._tell(name, TimeoutError("it did not answer within its interval"))
            return

        def look() -> None:
            self.values[name] = self._read(name, lambda: self.readings.disk(name[1]))

        probe = threading.Thread(target=look, name=f"pyrula-disk {name[1]}", daemon=True)
        self._probes[name] = probe
        probe.start()
        probe.join(0.2)

    def _read(self, name: OsLimitable, source: Callable[[], float]) -> float:
        try:
            value = source()
        except Exception as error:  # whatever a driver raises, a reading never stops a worker
            self._tell(name, error)
            return UNKNOWN
        return value if value >= 0 else UNKNOWN

    def _tell(self, name: OsLimitable, error: Exception) -> None:
        if name not in self._told:
            self._told.add(name)
            label = name if isinstance(name, str) else f"disk {name[1]}"
            log.warning("%s can't be read (%r); it reads -1 and holds nobody back", label, error)

    def _check_mount(self, mount: str) -> None:
        try:
            known = self.readings.mounts()
        except Exception:  # the list only helps to word the error
            known = ()
        if mount in known:
            return
        try:
            Path(mount).lstat()
        except (FileNotFoundError, NotADirectoryError, ValueError):
            raise ConfigurationError(
                f"limits['os'][('disk', {mount!r})]: no such path; mounted are {', '.join(known) or 'none'}"
            ) from None
        except OSError as error:
            self._tell(("disk", mount), error)
