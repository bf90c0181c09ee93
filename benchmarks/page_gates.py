"""How long the server needs for each view of /ui with 100,000 gates and a million finished runs.

    python benchmarks/page_gates.py [--gates N] [--runs N] [--json FILE]

The store is a file whose rows are written in bulk: gates and lanes as a worker would leave them, every tenth gate with
a queue behind it. What is timed is a live view, from the store's tables to the bytes that are sent, off the socket.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import statistics
import tempfile
import time
from pathlib import Path

import apsw

from pyrula.policies.stamp import Stamp, gate_id, lane_id, stamp_run
from pyrula.store.open import open_store
from pyrula.web import wire
from pyrula.web.views import VIEWS, Minutes
from pyrula.workflows import Limit, Registry, workflow

registry = Registry()
VIEWS_TIMED = {
    "gates, most queued first": ("gates", {"sort": "queued"}),
    "gates, the last page of it": ("gates", {"sort": "queued", "cursor": "1950"}),
    "gates, most executing first": ("gates", {"sort": "busy"}),
    "gates, by name": ("gates", {"sort": "name"}),
    "gates, by name, page 2,000": ("gates", {"sort": "name", "cursor": "99950"}),
    "gates, searched": ("gates", {"sort": "queued", "search": "tenant-0777"}),
    "gates, all found, last page": ("gates", {"sort": "queued", "search": "tenant", "cursor": "1950"}),
    "one gate": ("gate", {"name": "sync.limit", "key": "tenant-000000"}),
    "overview": ("overview", {}),
    "runs": ("runs", {}),
    "runs, failed": ("runs", {"state": "failed"}),
    "runs of a key": ("runs", {"search": "tenant-000777"}),
}


@workflow(name="sync", registry=registry, concurrency=Limit(key="tenant", max=2))
async def sync(ctx: object, tenant: str) -> None: ...


def fill(path: str, gates: int, runs: int) -> None:
    """Write what a store holds after `runs` runs of `gates` tenants, and ten that wait behind every tenth gate."""
    db = apsw.Connection(path)
    db.execute("PRAGMA synchronous = off")
    stamped = stamp_run(sync, {"tenant": "t"})
    stamp = stamped.stamp
    now = time.time_ns() // 1000
    waiting = range(0, gates, 10)
    with db:
        db.execute("INSERT INTO stamps VALUES (?, ?)", (stamp.digest, stamp.encode()))
        db.executemany(
            "INSERT INTO gates (id, name, key, kind, in_use, waiting) VALUES (?, 'sync.limit', ?, 0, ?, ?)",
            ((_gate(n), _tenant(n), 2 if n % 10 == 0 else n % 2, int(n % 10 == 0)) for n in range(gates)),
        )
        db.executemany(
            "INSERT INTO lanes VALUES (?, ?, 'sync', 3, ?, ?, 2, ?, 0, ?, '2', 0, 0)",
            ((_lane(n), _lane(n), _gate(n), b"\0", _gate(n), runs + n * 10) for n in waiting),
        )
        db.executemany(_RUN, (_finished(seq, gates, stamp, now) for seq in range(1, runs + 1)))
        open_runs = [(runs + 1 + at * 10 + k, n) for at, n in enumerate(waiting) for k in range(10)]
        db.executemany(_RUN, (_open(seq, n, stamp, now) for seq, n in open_runs))
        db.executemany(
            "INSERT INTO queue VALUES (?, 0, ?, ?)",
            sorted((_lane(n), seq, stamp.digest) for seq, n in open_runs),
        )
    db.close()


_RUN = (
    "INSERT INTO runs (seq, run_id, workflow, state, params, stamp, lane, priority, key, keys, attempt, logged, "
    "submitted_at, wall_submitted, started_at, finished_at, result) VALUES (?,?,'sync',?,?,?,?,3,?,?,1,0,?,?,?,?,?)"
)


def _finished(seq: int, gates: int, stamp: Stamp, now: int) -> tuple[object, ...]:
    at = now - 7200_000_000 + seq * 7200  # two hours of them
    state = "failed" if seq % 100 == 0 else "completed"
    return _row(seq, seq % gates, state, stamp, at, at + 1000, at + 5000)


def _open(seq: int, n: int, stamp: Stamp, now: int) -> tuple[object, ...]:
    return _row(seq, n, "open", stamp, now, None, None)


def _row(
    seq: int, n: int, state: str, stamp: Stamp, at: int, started: int | None, finished: int | None
) -> tuple[object, ...]:
    tenant = _tenant(n)
    params, keys = f'{{"tenant":"{tenant}"}}'.encode(), f'["{tenant}"]'
    result = b"null" if state == "completed" else None
    return (
        seq,
        f"run-{seq:09}",
        state,
        params,
        stamp.digest,
        _lane(n),
        tenant,
        keys,
        at,
        at,
        started,
        finished,
        result,
    )


def _tenant(n: int) -> str:
    return f"tenant-{n:06}"


def _gate(n: int) -> bytes:
    return gate_id("sync.limit", "limit", _tenant(n))


def _lane(n: int) -> bytes:
    return lane_id("sync", 3, _tenant(n), [_gate(n)])


async def measure(path: str, repeat: int) -> dict[str, dict[str, float]]:
    """Milliseconds of each view: the median, the slowest, and the processor's part of the median."""
    found = {}
    async with open_store(f"sqlite:///{path}") as store:
        minutes = Minutes(store, store.clock)
        for name, (view, params) in VIEWS_TIMED.items():
            times, cpu = [], []
            for _ in range(repeat):
                began, spent = time.perf_counter(), time.process_time()
                wire.encode(await VIEWS[view](store, minutes, params))
                times.append((time.perf_counter() - began) * 1000)
                cpu.append((time.process_time() - spent) * 1000)
            found[name] = {
                "median": statistics.median(times),
                "slowest": max(times),
                "cpu": statistics.median(cpu),
            }
    return found


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gates", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/runs.db"
        async with open_store(f"sqlite:///{path}") as store:
            await store.connect()
        fill(path, given.gates, given.runs)
        found = await measure(path, given.repeat)
    print(
        f"{given.gates:,} gates, {given.runs:,} finished runs, {given.gates // 10 * 10:,} queued; {platform.machine()}"
    )
    for name, times in found.items():
        print(
            f"{name:<30} median {times['median']:7.1f} ms   slowest {times['slowest']:7.1f} ms   "
            f"CPU {times['cpu']:7.1f} ms"
        )
    if given.json:
        given.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
