"""What bodies noted, and what a checker makes of it: who executed what, when, and how many at once."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple


class Note(NamedTuple):
    """One line: seconds of the machine's monotonic clock, which all its processes share; what: start, end, or
    any."""

    at: float
    pid: int
    what: str
    run_id: str
    key: str


class Stay(NamedTuple):
    """One body in a process, from its first line to its last, or to the death of its process."""

    run_id: str
    key: str
    pid: int
    began: float
    ended: float


def note(path: str, what: str, run_id: str, key: str = "-") -> None:
    """Append one line, in one write: lines of several processes stay apart, and outlive a kill."""
    line = f"{time.monotonic():.6f} {os.getpid()} {what} {run_id} {key}\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def read(path: Path) -> list[Note]:
    """All notes so far, in the order in which they were written."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        at, pid, what, run_id, key = line.split(" ", 4)
        found.append(Note(float(at), int(pid), what, run_id, key))
    return found


def stays(notes: Iterable[Note], died: Mapping[int, float], now: float) -> list[Stay]:
    """Bodies, paired from notes. died: process → when it was killed."""
    open_: dict[tuple[int, str], Note] = {}
    found = []
    for one in notes:
        if one.what == "start":
            open_[one.pid, one.run_id] = one
        elif one.what == "end" and (began := open_.pop((one.pid, one.run_id), None)) is not None:
            found.append(Stay(one.run_id, one.key, one.pid, began.at, one.at))
    found += [Stay(n.run_id, n.key, n.pid, n.at, died.get(n.pid, now)) for n in open_.values()]
    return sorted(found, key=lambda stay: stay.began)


def peaks(found: Iterable[Stay], by: str) -> dict[str, int]:
    """The most bodies at once, by `run_id` or by `key`."""
    edges: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for stay in found:
        edges[getattr(stay, by)] += [(stay.began, 1), (stay.ended, -1)]
    most = {}
    for name, moments in edges.items():
        inside = most[name] = 0
        for _, step in sorted(moments):  # an end before a start of the same moment
            inside += step
            most[name] = max(most[name], inside)
    return most
