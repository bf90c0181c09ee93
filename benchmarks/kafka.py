"""Records a second from a topic: a bare consumer loop with the same client, and a workflow whose body does nothing.

    python -m benchmarks.kafka [--records N] [--store URL] [--json FILE]

Both read one topic of one broker process in one run, by turns; the figure is their ratio. The bare loop keeps what
is usual: batches of 500, one commit a batch. The workflow keeps each record as a durable run.
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
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer

from pyrula.kafka import KafkaStream
from pyrula.workflows import Registry, Worker, open_store, workflow
from tests.kafka.broker import QUICK, Broker

PARTITIONS = 6
ROUNDS = 3


def bare(broker: Broker, topic: str, records: int, group: str) -> float:
    """Records a second of a plain loop, from the first record on."""
    consumer = Consumer(
        {"bootstrap.servers": broker.servers, "group.id": group, "auto.offset.reset": "earliest",
         "enable.auto.commit": False, "fetch.wait.max.ms": 10}
    )  # fmt: skip
    consumer.subscribe([topic])
    count, began, values = 0, 0.0, []
    try:
        while count < records:
            messages = [message for message in consumer.consume(500, 0.05) if message.error() is None]
            began = began or (time.perf_counter() if messages else 0.0)
            values = [json.loads(message.value() or b"") for message in messages]
            count += len(messages)
            if values:
                consumer.commit(asynchronous=True)
        return count / (time.perf_counter() - began)
    finally:
        consumer.close()


async def runs(broker: Broker, topic: str, records: int, group: str, store_url: str, flight: int) -> float:
    """Records a second as durable runs, from the first body on to the last that the store has."""
    registry = Registry()
    stream = KafkaStream(topic, group, broker.servers, max_concurrency=flight, config=QUICK)
    began = 0.0

    @workflow(name="orders", registry=registry, stream=stream)
    async def orders(ctx: Any, record: dict[str, Any]) -> None:
        nonlocal began
        began = began or time.perf_counter()

    async with open_store(store_url) as store:
        worker = Worker(store, registry, max_concurrent_runs=flight)
        async with worker:
            while not (streams := worker.stats().streams) or streams[0].finished < records:  # noqa: ASYNC110 - it measures
                await asyncio.sleep(0.005)
            return records / (time.perf_counter() - began)


def measure(records: int, store: str | None) -> dict[str, Any]:
    """Each figure's median of ROUNDS, and its ratio to the bare loop of the same round."""
    broker = Broker()
    broker.start()
    topic = broker.topic("orders", PARTITIONS)
    broker.send(topic, [(n % PARTITIONS, f"key-{n}", json.dumps({"n": n})) for n in range(records)])
    found: dict[str, list[float]] = {}
    ratios: dict[str, list[float]] = {}
    try:
        for number in range(ROUNDS):
            plain = bare(broker, topic, records, f"bare-{number}")
            found.setdefault("bare loop", []).append(plain)
            for flight in (16, 100, 500):
                kinds = (
                    {"file": store, "memory": "sqlite://"}
                    if flight == 100 and store is None
                    else {"file": store}
                )
                for kind, url in kinds.items():
                    with tempfile.TemporaryDirectory() as folder:
                        here = url or f"sqlite:///{Path(folder) / 'runs.db'}"
                        group = f"runs-{number}-{flight}-{kind}"
                        rate = asyncio.run(runs(broker, topic, records, group, here, flight))
                    name = f"runs, max_concurrency={flight}" + (", in memory" if kind == "memory" else "")
                    found.setdefault(name, []).append(rate)
                    ratios.setdefault(name, []).append(plain / rate)
    finally:
        broker.stop()
    return {
        "machine": {
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "system": platform.platform(),
        },
        "records": records,
        "partitions": PARTITIONS,
        "records_per_second": {name: round(statistics.median(rates)) for name, rates in found.items()},
        "bare_loop_is_times_as_fast": {
            name: round(statistics.median(each), 1) for name, each in ratios.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=6000)
    parser.add_argument("--store", help="default: a SQLite file of its own for each round")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result = measure(options.records, options.store)
    text = json.dumps(result, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
