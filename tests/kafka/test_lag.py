"""Lag as the client library's mock cluster tells it: right in each case, which the tests' broker is not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import Producer

from tests.kafka.scene import Scene, at, stats

PARTITIONS = 4  # what the mock gives each topic


@pytest.fixture
def mock():
    producer = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 3, "linger.ms": 50})
    brokers = producer.list_topics(timeout=10).brokers.values()
    yield producer, ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    producer.flush(1)


async def test_lag_counts_what_is_not_finished_and_what_was_not_read(mock):
    producer, servers = mock
    async with Scene(SimpleNamespace(servers=servers), "lag", PARTITIONS) as scene:

        async def orders(ctx, record):
            if record["partition"] == 2 and record["offset"] == 30:
                await ctx.wait_for_event("go")

        scene.declare(orders, config={"session.timeout.ms": 6000, "fetch.wait.max.ms": 20})
        for n in range(50 * PARTITIONS):  # in batches of many
            producer.produce("lag", str(n), partition=n % PARTITIONS)
        producer.flush(10)
        worker = await scene.work()
        await scene.until(lambda: stats(worker).finished == 199, 30)
        await scene.until(lambda: [at(worker, n).lag for n in range(PARTITIONS)] == [0, 0, 20, 0])
        assert at(worker, 2).in_flight == 1
        await scene.client.send_event(scene.id(2, 30), "go", None)
        await scene.until(lambda: at(worker, 2).lag == 0 and at(worker, 2).committed == 50)
