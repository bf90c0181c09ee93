"""Worker processes on a PostgreSQL store that may be killed or stopped, and what their bodies wrote down.

`python -m tests.postgres.crew URL NOTES LEASE` is one of them.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from pyrula.workflows import Limit, Rate, Registry, Worker, open_store, workflow

_ROOT = Path(__file__).parents[2]
MAX, PER_SECOND, BURST = 2, 50, 5


class Stay(NamedTuple):
    """A body that was at work. claimed_at: store µs; begin, end: s of this machine's clock that does not step."""

    run_id: str
    key: str
    pid: int
    claimed_at: int
    begin: float
    end: float


def declare(notes: str) -> Registry:
    """One workflow with a limit and a rate for each key, whose bodies note when they come and go."""
    registry = Registry()

    @workflow(
        name="storm",
        registry=registry,
        concurrency=Limit("k", MAX),
        rate_limit=Rate("k", PER_SECOND, BURST),
    )
    async def storm(ctx: Any, k: str, seconds: float = 0.0, block: float = 0.0) -> str:
        _note(notes, "begin", ctx.run_id, k, ctx.claimed_at_us)
        await asyncio.sleep(seconds)
        time.sleep(block)  # noqa: ASYNC251 - a body that holds its loop up is what is tested
        _note(notes, "end", ctx.run_id, k, ctx.claimed_at_us)
        return k

    return registry


def _note(path: str, *words: object) -> None:
    line = " ".join(map(str, (time.monotonic(), os.getpid(), *words))) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


class Crew:
    """Starts workers; every one of them is gone when it is closed."""

    def __init__(self, url: str, folder: Path, lease: float) -> None:
        self.url, self.lease = url, lease
        self.notes = folder / "notes"
        self.notes.touch()
        self._folder = folder
        self.workers: list[subprocess.Popen[bytes]] = []
        self._killed: dict[int, float] = {}

    def start(self, name: str = "pyrula") -> subprocess.Popen[bytes]:
        """name: of its connections, as the server sees them."""
        with (self._folder / f"output-{len(self.workers)}").open("wb") as output:
            worker = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.postgres.crew"),
                    *(f"{self.url}&application_name={name}", str(self.notes), str(self.lease)),
                ],
                cwd=_ROOT,
                stdout=output,
                stderr=output,
            )
        self.workers.append(worker)
        return worker

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        worker.kill()
        worker.wait()
        self._killed[worker.pid] = time.monotonic()

    def close(self) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGCONT)
                worker.kill()
            worker.wait()

    def said(self) -> str:
        return "\n".join(path.read_text("utf-8", "replace")[-2000:] for path in self._folder.glob("output-*"))

    def stays(self) -> list[Stay]:
        """Every body that was at work; one that was killed, until then; one that still is, for ever."""
        open_stays: dict[tuple[str, int], Stay] = {}
        stays = []
        for line in self.notes.read_text().splitlines():
            at, pid, what, run_id, key, claimed_at = line.split(" ")
            place = run_id, int(pid)
            if what == "begin":
                ends = self._killed.get(int(pid), float("inf"))
                open_stays[place] = Stay(run_id, key, int(pid), int(claimed_at), float(at), ends)
            else:
                stays.append(open_stays.pop(place)._replace(end=float(at)))
        return [*stays, *open_stays.values()]


def peaks(stays: list[Stay]) -> dict[str, int]:
    """Per key, the most bodies that were at work at once."""
    found: dict[str, int] = {}
    for key, some in _by_key(stays).items():
        moments = sorted([(stay.begin, 1) for stay in some] + [(stay.end, -1) for stay in some])
        inside = peak = 0
        for _, change in moments:
            inside += change
            peak = max(peak, inside)
        found[key] = peak
    return found


def twice(stays: list[Stay]) -> list[str]:
    """Runs that were in two bodies at once."""
    by_run = defaultdict(list)
    for stay in stays:
        by_run[stay.run_id].append(stay)
    found = []
    for run_id, some in by_run.items():
        some.sort(key=lambda stay: stay.begin)
        if any(later.begin < earlier.end for earlier, later in itertools.pairwise(some)):
            found.append(run_id)
    return found


def started_too_early(stays: list[Stay]) -> list[str]:
    """First starts that the token bucket of their key had no token for, by the instant of their claims."""
    unit = 1_000_000
    found = []
    for some in _by_key(stays).values():
        first: dict[str, int] = {}
        for stay in some:
            first[stay.run_id] = min(stay.claimed_at, first.get(stay.run_id, stay.claimed_at))
        debt = at = 0
        for run_id, claimed_at in sorted(first.items(), key=lambda item: item[1]):
            debt = max(0, debt - (claimed_at - at) * PER_SECOND) + unit
            at = claimed_at
            if debt > BURST * unit:
                found.append(run_id)
    return found


def _by_key(stays: list[Stay]) -> dict[str, list[Stay]]:
    found = defaultdict(list)
    for stay in stays:
        found[stay.key].append(stay)
    return found


async def _serve(url: str, notes: str, lease: float) -> None:
    async with open_store(url) as store:
        worker = Worker(store, registry=declare(notes), max_concurrent_runs=40, lease_seconds=lease)
        await worker.run()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], sys.argv[2], float(sys.argv[3])))
