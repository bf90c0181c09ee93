"""Runs a second on PostgreSQL, with 1, 2 and 4 worker processes, by workflow; and with runs queued behind full keys.

    python -m benchmarks.postgres [--url URL] [--runs N] [--workers 1 2 4] [--queued 1000 1000000] [--json FILE]
    python -m benchmarks.postgres --cpu [--runs N] [--rounds N]

Without a URL it starts a server of its own (as the tests do, fsync on). Client, workers and server share the machine.
Each backlog is made once and measured with each number of worker processes:
`--queued 1000 1000000 --workers 1 2 4` is the whole of it. Aims: keyed at least 0.9 of plain, the longest backlog at
least 0.8 of the shortest.
Every figure is a ratio to another of the same process, interleaved and repeated. `--cpu` (Linux) is processor time a
run: client and worker in one process and the server's, the least of the rounds: other work disturbs that least.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.engine import FULL_KEYS, churn, end_to_end, holders, prepared, registry
from pyrula.cli.working import spare_collector
from pyrula.workflows import Worker, WorkflowClient, open_store
from tests.postgres.server import Server

NAMES = ["plain", "keyed", "rated", "plain_step", "keyed_step"]
_ROOT = Path(__file__).parents[1]


async def _serve(url: str) -> None:
    async with open_store(url) as store:
        await Worker(store, registry=registry, max_concurrent_runs=500).run()


async def measure(url: str, workers: int, runs: int, rounds: int, churning: bool) -> dict[str, float]:
    """Median runs a second by workflow, rounds interleaved."""
    figures: dict[str, list[float]] = {name: [] for name in NAMES}
    processes = [
        subprocess.Popen([sys.executable, "-m", "benchmarks.postgres", "--serve", url], cwd=_ROOT)  # noqa: ASYNC220 - nothing else runs yet
        for _ in range(workers)
    ]
    try:
        async with open_store(url) as store:
            client = WorkflowClient(store, registry=registry)
            while len(await store.workers()) < workers:  # noqa: ASYNC110 - processes set no event
                await asyncio.sleep(0.05)
            stop = asyncio.Event()
            going = asyncio.create_task(
                churn(client, await holders(client, 20_000) if churning else [], stop)
            )
            for round_ in range(rounds + 1):
                for name in NAMES:
                    figure = await end_to_end(client, name, runs if round_ else runs // 4)
                    if round_:  # the first is for plans and caches
                        figures[name].append(figure)
            stop.set()
            await going
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
    return {name: statistics.median(values) for name, values in figures.items()}


def _server_spent(connection: psycopg.Connection[Any]) -> int:
    """ns of processor time of the server's processes for clients."""
    pids = connection.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'")
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for (pid,) in pids.fetchall())


async def spent(url: str, runs: int, rounds: int) -> dict[str, tuple[float, float]]:
    """By workflow the least µs of processor time a run, of client and worker and of the server."""
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in NAMES}
    async with open_store(url) as store:
        client = WorkflowClient(store, registry=registry)
        with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
            async with Worker(store, registry=registry, max_concurrent_runs=500):
                for round_ in range(rounds + 1):
                    for name in NAMES:
                        server, own = _server_spent(connection), time.process_time()
                        await end_to_end(client, name, runs)
                        own, server = time.process_time() - own, _server_spent(connection) - server
                        if round_:  # the first is for plans and caches
                            figures[name].append((own * 1e6 / runs, server / 1e3 / runs))
    return {name: (min(own for own, _ in each), min(of for _, of in each)) for name, each in figures.items()}


def _spent_table(figures: dict[str, tuple[float, float]]) -> None:
    plain = sum(figures["plain"])
    print("\nNothing queued, µs of processor time a run: client and worker, server")
    for name, (own, server) in figures.items():
        print(f"   {name:12} {own:6.1f} + {server:6.1f}   {plain / (own + server):5.2f} of plain", flush=True)


def _table(title: str, figures: dict[str, float]) -> None:
    print(f"\n{title}")
    for name, value in figures.items():
        print(f"   {name:12} {value:8.0f} runs/s   {value / figures['plain']:5.2f} of plain", flush=True)


def _compare(results: dict[str, Any], queued: list[int], workers: list[int]) -> None:
    """The longest backlog against the shortest."""
    if len(queued) < 2:
        return
    short, long = min(queued), max(queued)
    for number in workers:
        few, many = (results[f"{size} queued, {number} workers"] for size in (short, long))
        ratios = ", ".join(f"{name} {many[name] / few[name]:.2f}" for name in NAMES)
        print(f"\n{long} queued / {short} queued, {number} worker processes: {ratios}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url")
    parser.add_argument("--runs", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--keys", type=int, default=FULL_KEYS)
    parser.add_argument("--queued", type=int, nargs="*", default=[])
    parser.add_argument("--cpu", action="store_true", help="processor time a run, in place of runs a second")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", metavar="URL", help="be one of the workers")
    options = parser.parse_args()
    if options.serve:
        asyncio.run(_serve(options.serve))
        return
    server = (
        None if options.url else Server(durable=True, options=("shared_buffers=512MB", "max_wal_size=4GB"))
    )
    if server is not None:
        server.start()
    base = options.url or server.url()  # type: ignore[union-attr]  # one of the two
    results: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.python_version()}"
    }
    try:
        if options.cpu:
            spare_collector()  # as `pyrula worker` does
            url = f"{base}?schema=bench_cpu_{os.getpid()}"
            results["cpu"] = cpu = asyncio.run(spent(url, options.runs, options.rounds))
            _spent_table(cpu)
            options.workers, options.queued = [], []
        for workers in options.workers:
            url = f"{base}?schema=bench_{workers}_{os.getpid()}"
            figures = asyncio.run(measure(url, workers, options.runs, options.rounds, churning=False))
            results[f"{workers} workers"] = figures
            _table(f"Nothing queued, {workers} worker processes", figures)
        for queued in options.queued:
            url = f"{base}?schema=bench_q{queued}_{os.getpid()}"
            began = time.perf_counter()
            asyncio.run(prepared(url, options.keys, queued))
            print(f"   (made in {time.perf_counter() - began:.0f} s)")
            for workers in options.workers:
                figures = asyncio.run(measure(url, workers, options.runs, options.rounds, churning=True))
                results[f"{queued} queued, {workers} workers"] = figures
                title = (
                    f"{queued} queued behind {options.keys} full keys that churn, {workers} worker processes"
                )
                _table(title, figures)
        _compare(results, options.queued, options.workers)
    finally:
        if server is not None:
            server.stop()
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
