"""End-to-end runs a second: submit, claim, a no-op body, finish, all durable; with limits, and behind a backlog.

    python -m benchmarks engine [--store sqlite|postgres] [--runs N] [--backlog N] [--json FILE]

Every figure is a ratio to another of the same process, interleaved and repeated: the machine may be shared and noisy.
`cpu` is processor time a run, the least of the rounds, which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyrula.cli.working import spare_collector
from pyrula.workflows import Limit, Rate, Registry, Worker, WorkflowClient, open_store, workflow

TENANTS = 100
FULL_KEYS = 100_000
registry = Registry()


@workflow(name="plain", registry=registry)
async def plain(ctx: Any, n: int, tenant: str) -> int:
    return n


@workflow(name="plain_step", registry=registry)
async def plain_step(ctx: Any, n: int, tenant: str) -> int:
    return int(await ctx.step(_one, n))


@workflow(name="keyed", registry=registry, concurrency=Limit(key="tenant", max=5))
async def keyed(ctx: Any, n: int, tenant: str) -> int:
    return n


@workflow(name="keyed_step", registry=registry, concurrency=Limit(key="tenant", max=5))
async def keyed_step(ctx: Any, n: int, tenant: str) -> int:
    return int(await ctx.step(_one, n))


@workflow(
    name="rated",
    registry=registry,
    concurrency=Limit(key="tenant", max=5),
    rate_limit=Rate(key="tenant", per_second=10_000, burst=10_000),
)
async def rated(ctx: Any, n: int, tenant: str) -> int:
    return n


@workflow(name="backlog", registry=registry, concurrency=Limit(key="tenant", max=1, hold="run"))
async def backlog(ctx: Any, tenant: str) -> None:
    await ctx.wait_for_event("go")


async def _one(n: int) -> int:
    return n


def _params(n: int) -> dict[str, Any]:
    return {"n": n, "tenant": f"t{n % TENANTS}"}


async def end_to_end(client: WorkflowClient, name: str, runs: int, batch: int = 250) -> float:
    """Runs a second from the first submit until the last result is durable."""
    began = time.perf_counter()
    pending: list[asyncio.Future[Any]] = []
    for start in range(0, runs, batch):
        ids = await client.submit_many(name, [_params(n) for n in range(start, min(runs, start + batch))])
        pending.append(asyncio.gather(*(client.result(run_id) for run_id in ids)))
        if len(pending) > 4:
            await pending.pop(0)
    for waiting in pending:
        await waiting
    return runs / (time.perf_counter() - began)


async def fill(client: WorkflowClient, worker: Worker, keys: int, queued: int) -> None:
    """`keys` full keys, each held by a parked run, and `queued` runs behind them."""
    for start in range(0, keys, 1000):
        await client.submit_many(
            "backlog", [{"tenant": f"b{k}"} for k in range(start, min(keys, start + 1000))]
        )
        await worker.drain()
    for start in range(0, queued, 1000):
        await client.submit_many(
            "backlog", [{"tenant": f"b{k % keys}"} for k in range(start, min(queued, start + 1000))]
        )
    await worker.drain()  # each lane is where it waits: what is measured is the backlog, not its arrival


async def churn(client: WorkflowClient, held: list[str], stop: asyncio.Event) -> int:
    """Free slots of full keys all the while: each event ends a holder, and the next of its key takes its place."""
    done = 0
    while not stop.is_set() and held:
        for run_id in [held.pop() for _ in range(min(5, len(held)))]:
            await client.send_event(run_id, "go")
            done += 1
        await asyncio.sleep(0.02)
    return done


async def holders(client: WorkflowClient, limit: int) -> list[str]:
    """Parked runs of full keys, those of the newest first."""
    found: list[str] = []
    cursor = None
    while len(found) < limit:
        page = await client.runs(workflow="backlog", state="parked", limit=1000, cursor=cursor)
        found += [run.run_id for run in page]
        cursor = getattr(page, "cursor", None)
        if cursor is None:
            break
    return found[:limit]


async def measure(
    url: str, names: list[str], runs: int, rounds: int, churning: bool = False
) -> tuple[dict[str, float], dict[str, float]]:
    """By workflow the median of runs a second and the least processor time a run (µs), rounds interleaved."""
    figures: dict[str, list[float]] = {name: [] for name in names}
    spent: dict[str, list[float]] = {name: [] for name in names}
    async with open_store(url) as store:
        client = WorkflowClient(store, registry=registry)
        async with Worker(store, registry=registry, max_concurrent_runs=500):
            stop = asyncio.Event()
            going = asyncio.create_task(
                churn(client, await holders(client, 20_000) if churning else [], stop)
            )
            for _ in range(rounds):
                for name in names:
                    before = time.process_time()
                    figures[name].append(await end_to_end(client, name, runs))
                    spent[name].append((time.process_time() - before) / runs * 1e6)
            stop.set()
            churned = await going
    if churning:
        print(f"   (churned {churned} full keys meanwhile)")
    return (
        {name: statistics.median(values) for name, values in figures.items()},
        {name: min(values) for name, values in spent.items()},
    )


async def prepared(url: str, keys: int, queued: int) -> None:
    began = time.perf_counter()
    async with open_store(url) as store:
        client = WorkflowClient(store, registry=registry)
        await fill(client, Worker(store, registry=registry, max_concurrent_runs=1000), keys, queued)
    print(f"   ({keys} full keys and {queued} queued made in {time.perf_counter() - began:.0f} s)")


def _table(title: str, figures: dict[str, float], spent: dict[str, float], of: str) -> None:
    print(f"\n{title}")
    for name, value in figures.items():
        print(
            f"   {name:12} {value:8.0f} runs/s   {value / figures[of]:5.2f} of {of}"
            f"   cpu {spent[name]:6.1f} µs a run   {spent[of] / spent[name]:5.2f}"
        )


async def run(
    make_url: Callable[[str], str], runs: int, rounds: int, queued: list[int], keys: int
) -> dict[str, Any]:
    names = ["plain", "keyed", "rated", "plain_step", "keyed_step"]
    results: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.python_version()}"
    }
    results["empty"], results["empty, cpu"] = await measure(make_url("empty"), names, runs, rounds)
    _table("Nothing queued", results["empty"], results["empty, cpu"], "plain")
    for backlog_size in queued:
        url = make_url(f"backlog{backlog_size}")
        await prepared(url, keys, backlog_size)
        size = f"{backlog_size} queued"
        results[size], results[f"{size}, cpu"] = await measure(url, names, runs, rounds, churning=True)
        title = f"{backlog_size} queued behind {keys} full keys that churn"
        _table(title, results[size], results[f"{size}, cpu"], "plain")
    if len(queued) == 2:
        small, large = (results[f"{size} queued"] for size in queued)
        for name in names:
            print(f"   {name:12} {queued[1]} queued / {queued[0]} queued: {large[name] / small[name]:.2f}")
    return results


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keys", type=int, default=FULL_KEYS)
    parser.add_argument("--queued", type=int, nargs="*", default=[1_000, 1_000_000])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    spare_collector()  # as `pyrula worker` does
    with tempfile.TemporaryDirectory(dir=os.environ.get("PYRULA_BENCH_DIR")) as folder:
        results = asyncio.run(
            run(
                lambda name: f"sqlite:///{folder}/{name}.db",
                options.runs,
                options.rounds,
                options.queued,
                options.keys,
            )
        )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
