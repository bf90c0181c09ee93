"""The broker is gone for a while: consumption goes on by itself, nothing is lost, nothing is doubled."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.kafka.broker import QUICK, Broker, Door
from tests.kafka.scene import Scene, at, stats

OUTAGE_SECONDS = 20


@pytest.fixture
def behind_a_door():
    door = Door()
    broker = Broker(advertised=door.port)
    broker.start()
    door.open(broker.port)
    yield broker, door
    door.close()
    broker.stop()


@pytest.mark.timeout(110)
async def test_consumption_resumes_after_an_outage_of_twenty_seconds(behind_a_door):
    broker, door = behind_a_door
    name = f"outage-{os.getpid()}"
    async with Scene(broker, broker.topic(name, 3), 3) as scene:
        steps: Counter[int] = Counter()
        hold = True

        async def count(n):
            steps[n] += 1

        async def orders(ctx, record):
            await ctx.step(count, record["value"])
            if hold and record["value"] % 10 == 0:
                await ctx.wait_for_event("go")

        scene.declare(orders, max_concurrency=30, config={**QUICK, "reconnect.backoff.max.ms": 1000})
        scene.send(list(range(90)), key=lambda n: None)
        worker = await scene.work()
        await scene.until(lambda: stats(worker).finished == 81)
        door.shut()
        for number in range(0, 90, 10):  # these end while nothing can be committed
            await scene.client.send_event(scene.id(number % 3, number // 3), "go", None)
        await scene.until(lambda: stats(worker).finished == 90)
        await scene.store.clock.sleep(OUTAGE_SECONDS * 1_000_000)
        assert stats(worker).trouble is not None
        hold = False
        door.open(broker.port)
        scene.send(list(range(90, 180)))
        ids = [scene.id(n % 3, n // 3) for n in range(180)]
        await scene.until(lambda: all(at(worker, n).committed == 60 for n in range(3)), 60)
        assert set(await scene.states(ids)) == {"completed"}
        assert steps == Counter(range(180))
        await worker.stop()
        assert scene.committed() == [60, 60, 60]
