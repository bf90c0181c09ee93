"""The example of docs/kafka.md, as `pyrula worker` runs it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from pyrula.store.open import open_store

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_example_runs_under_pyrula_worker(broker, tmp_path):
    broker.topic("orders", 2)
    broker.topic("orders-dead", 1)
    orders = [{"order": n, "customer": f"c{n % 3}", "cents": 0 if n == 4 else 100 + n} for n in range(10)]
    broker.send("orders", [(n % 2, str(n), json.dumps(order)) for n, order in enumerate(orders)])
    url = f"sqlite:///{tmp_path / 'orders.db'}"
    output = tmp_path / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "pyrula", "worker", "--store", url, "kafka_orders"],
            cwd=EXAMPLES,
            env={**os.environ, "KAFKA_SERVERS": broker.servers},
            stdout=file,
            stderr=file,
        )
    try:
        give_up = time.monotonic() + 40
        while (
            output.read_text().count("receipt-") < 9 and time.monotonic() < give_up and process.poll() is None
        ):
            time.sleep(0.05)
        assert output.read_text().count("receipt-") == 9, output.read_text()
        (letter,) = broker.all_of("orders-dead", 1, 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, output.read_text()
    finally:
        process.kill()
        process.wait(10)
    assert json.loads(letter.value()) == orders[4]
    assert dict(letter.headers())["pyrula.error.code"] == b"ValueError"
    assert broker.committed("orders-sync", "orders", 2) == [5, 5]
    states = asyncio.run(_states(url))
    assert sorted(states) == ["completed"] * 9 + ["failed"]


async def _states(url: str) -> list[str]:
    async with open_store(url) as store:
        found, _ = await store.runs("sync_order", None, None, 100, None)
        return [run.state for run in found]
