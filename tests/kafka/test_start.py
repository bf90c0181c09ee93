"""Starting a worker with a stream: what is missing or refused is told at once; tests need no broker."""

from __future__ import annotations

import sys

import pytest

from pyrula.errors import ConfigurationError
from pyrula.kafka import KafkaRecord, KafkaStream
from pyrula.testing import Environment
from pyrula.workflows import Registry, Worker, open_store, workflow


def _declared(**more) -> Registry:
    registry = Registry()

    @workflow(registry=registry, stream=KafkaStream("orders", "sync", "127.0.0.1:1", **more))
    async def orders(ctx, record: KafkaRecord):
        return record.value

    return registry


async def test_a_worker_without_the_client_library_says_how_to_get_it(monkeypatch):
    for name in list(sys.modules):
        if name.startswith("pyrula.kafka.") and name not in ("pyrula.kafka.stream", "pyrula.kafka.record"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    async with open_store("sqlite://") as store:
        with pytest.raises(
            ConfigurationError, match=r"confluent_kafka is not installed: pip install 'pyrula-wo.*\[kafka\]"
        ):
            await Worker(store, _declared()).run()
        assert await store.workers() == []


async def test_a_setting_that_the_client_refuses_is_told_at_the_start():
    async with open_store("sqlite://") as store:
        with pytest.raises(ConfigurationError, match=r"refuses KafkaStream.config: .*session.time-out"):
            await Worker(store, _declared(config={"session.time-out": 6})).run()


async def test_a_worker_told_to_leave_streams_alone_needs_neither_broker_nor_library():
    async with open_store("sqlite://") as store:
        worker = Worker(store, _declared(), streams=False)
        await worker.drain()
        async with worker:
            assert worker.stats().streams == ()


async def test_a_workflow_with_a_stream_is_tested_by_submitting_a_record():
    async with Environment(workflows=_declared()) as env:
        record = {"topic": "orders", "partition": 0, "offset": 7, "value": {"n": 1}}
        assert await env.client.execute("orders", {"record": record}) == {"n": 1}
