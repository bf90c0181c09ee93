"""A peer and the raw database beside pyrula, on one PostgreSQL server, in turn: end-to-end runs a second.

    python -m benchmarks peers [--python FOLDER/bin/python] [--runs N] [--rounds N] [--json FILE]

`raw` is what the rows alone take: as many inserted, claimed (`FOR UPDATE SKIP LOCKED`) and finished, 250 in a
transaction, by one connection. `dbos` needs DBOS Transact, here or in the environment of `--python`; its queues are
polled every 10 ms (its default is 1 s), submits and results are awaited by 32 threads, all else is as it comes. One
process each, 100 tenants; `keyed` is at most 5 of a tenant at once. A server of its own (as the tests have), fsync on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg

TENANTS, AT_ONCE, BATCH, THREADS = 100, 5, 250, 32


def raw(url: str, runs: int) -> float:
    """Runs a second of the rows alone."""
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(
            "DROP TABLE IF EXISTS rows; CREATE TABLE rows (id bigserial PRIMARY KEY, params text, state int)"
        )
        cursor.execute("CREATE INDEX ON rows (id) WHERE state = 0")
        connection.commit()
        began = time.perf_counter()
        for start in range(0, runs, BATCH):
            params = [
                json.dumps({"n": n, "tenant": f"t{n % TENANTS}"})
                for n in range(start, min(runs, start + BATCH))
            ]
            cursor.execute("INSERT INTO rows (params, state) SELECT unnest(%s::text[]), 0", (params,))
            connection.commit()
            cursor.execute(
                "UPDATE rows SET state = 1 WHERE id IN (SELECT id FROM rows WHERE state = 0 ORDER BY id LIMIT %s "
                "FOR UPDATE SKIP LOCKED) RETURNING id, params",
                (BATCH,),
            )
            claimed = [row[0] for row in cursor.fetchall()]
            connection.commit()
            cursor.execute("UPDATE rows SET state = 2 WHERE id = ANY(%s)", (claimed,))
            connection.commit()
        return runs / (time.perf_counter() - began)


def serve_dbos(url: str) -> None:
    """Answer lines `NAME RUNS` with runs a second, in a process of its own."""
    from dbos import DBOS, SetEnqueueOptions

    DBOS(
        config={"name": "bench", "system_database_url": url, "run_admin_server": False, "log_level": "ERROR"}
    )

    @DBOS.workflow()
    def noop(n: int) -> int:
        return n

    DBOS.launch()
    queues = {
        "plain": DBOS.register_queue("plain", polling_interval_sec=0.01),
        "keyed": DBOS.register_queue("keyed", partition_concurrency=AT_ONCE, polling_interval_sec=0.01),
    }

    def submit(name: str, n: int) -> Any:
        if name == "plain":
            return queues[name].enqueue(noop, n)
        with SetEnqueueOptions(queue_partition_key=f"t{n % TENANTS}"):
            return queues[name].enqueue(noop, n)

    print("ready", flush=True)
    with ThreadPoolExecutor(THREADS) as threads:
        for line in sys.stdin:
            name, runs = line.split()
            began = time.perf_counter()
            handles = list(threads.map(lambda n, name=name: submit(name, n), range(int(runs))))
            list(threads.map(lambda handle: handle.get_result(), handles))
            print(int(runs) / (time.perf_counter() - began), flush=True)
    DBOS.destroy()


def _dbos(python: str, url: str) -> tuple[subprocess.Popen[str], Callable[[str, int], float]]:
    process = subprocess.Popen(
        [python, __file__, "--serve-dbos", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    into, out = process.stdin, process.stdout
    if out.readline().strip() != "ready":
        sys.exit("the peer does not start: pip install dbos, here or in the environment of --python")

    def ask(name: str, runs: int) -> float:
        into.write(f"{name} {runs}\n")
        into.flush()
        return float(out.readline())

    return process, ask


async def measure(server: Any, python: str, runs: int, peer_runs: int, rounds: int) -> dict[str, float]:
    """Median runs a second, rounds interleaved; the first is for plans and caches."""
    from benchmarks.engine import end_to_end, registry
    from pyrula.workflows import Worker, WorkflowClient, open_store

    figures: dict[str, list[float]] = {}
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE peer")
    peer, ask = _dbos(python, server.url(database="peer"))
    try:
        async with open_store(server.url("ours")) as store:
            client = WorkflowClient(store, registry=registry)
            async with Worker(store, registry=registry, max_concurrent_runs=500):
                for round_ in range(rounds + 1):
                    told = {"raw": await asyncio.to_thread(raw, server.url(), runs)}
                    for name in ("plain", "keyed"):
                        told[f"pyrula {name}"] = await end_to_end(client, name, runs)
                        told[f"dbos {name}"] = await asyncio.to_thread(ask, name, peer_runs)
                    for name, value in told.items():
                        figures.setdefault(name, []).extend([value] if round_ else [])
    finally:
        peer.terminate()
        peer.wait()
    return {name: statistics.median(values) for name, values in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--serve-dbos", help=argparse.SUPPRESS)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--runs", type=int, default=3000)
    parser.add_argument("--peer-runs", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.serve_dbos:
        serve_dbos(given.serve_dbos)
        return
    from tests.postgres.server import Server

    server = Server(durable=True)
    server.start()
    try:
        figures = asyncio.run(measure(server, given.python, given.runs, given.peer_runs, given.rounds))
    finally:
        server.stop()
    for name, value in figures.items():
        print(f"{name:14} {value:8.0f} runs/s   {value / figures['raw']:6.3f} of raw")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
