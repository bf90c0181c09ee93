"""Partitions change hands: nothing runs in two places, flights stay within their bounds, idle workers stay idle."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from tests.kafka.broker import QUICK
from tests.kafka.scene import Scene, at, stats

# The test broker can lose its group's leader while members come and go; no such fault showed in thirteen runs in a row.
pytestmark = pytest.mark.flaky(reruns=2)


async def test_no_more_workers_than_partitions_take_part(broker, topic):
    async with Scene(broker, topic(1), 1) as scene:

        async def orders(ctx, record):
            pass

        scene.declare(orders)
        first = await scene.work("first")
        second = await scene.work("second")
        await scene.until(lambda: stats(first).partitions or stats(second).partitions)
        scene.send(list(range(50)))
        await scene.until(lambda: stats(first).finished + stats(second).finished == 50)
        shares = sorted([stats(first).finished, stats(second).finished])
        assert shares == [0, 50]


async def test_a_worker_that_joins_takes_partitions_over_with_the_runs_they_left_open(broker, topic):
    partitions, most = 4, 4
    async with Scene(broker, topic(partitions), partitions) as scene:
        inside: Counter[str] = Counter()
        flights: dict[str, int] = {}

        async def orders(ctx, record):
            assert inside[ctx.run_id] == 0
            inside[ctx.run_id] += 1
            try:
                await ctx.wait_for_event("go")
            finally:
                inside[ctx.run_id] -= 1

        scene.declare(orders, max_concurrency=most)
        scene.send(list(range(4 * partitions)))
        first = await scene.work("first")
        await scene.until(lambda: stats(first).in_flight == most and first.executing == 0)
        second = await scene.work("second")
        await scene.until(lambda: len(stats(first).partitions) == len(stats(second).partitions) == 2)
        done: set[str] = set()
        async with asyncio.timeout(30):
            while len(done) < 4 * partitions:
                for worker in (first, second):
                    flights[worker.worker_id] = max(flights.get(worker.worker_id, 0), stats(worker).in_flight)
                for n in range(4 * partitions):
                    run = scene.id(n % partitions, n // partitions)
                    (state,) = await scene.states([run])
                    if state == "open" and run not in done:
                        await scene.client.send_event(run, "go", None)
                        done.add(run)
                await asyncio.sleep(0.01)
        await scene.until(
            lambda: all(at(w, n).lag in (0, None) for w in (first, second) for n in range(partitions))
        )
        ids = [scene.id(n % partitions, n // partitions) for n in range(4 * partitions)]
        await scene.until_completed(ids)
        assert max(flights.values()) == most
        for worker in (first, second):
            await worker.stop()
        assert scene.committed() == [4] * partitions
        assert await scene.store.check() == []


async def test_a_body_goes_on_where_it_is_and_the_new_owner_waits_for_it(broker, topic):
    async with Scene(broker, topic(2), 2) as scene:
        gate, bodies = asyncio.Event(), []

        async def orders(ctx, record):
            bodies.append(ctx.run_id)
            await gate.wait()

        scene.declare(orders)
        scene.send([0, 1, 2, 3], key=lambda n: f"key-{n % 2}")
        first = await scene.work("first")
        await scene.until(lambda: first.executing == 2)
        second = await scene.work("second")
        await scene.until(lambda: len(stats(first).partitions) == len(stats(second).partitions) == 1)
        (moved,) = (each.partition for each in stats(second).partitions)
        await scene.until(lambda: at(second, moved).in_flight == 1)
        assert (first.executing, second.executing, len(bodies)) == (2, 0, 2)
        assert stats(first).in_flight == 2, "a body that goes on counts where it is"
        gate.set()
        await scene.until(lambda: len(bodies) == 4 and stats(first).finished + stats(second).finished >= 4)
        assert sorted(bodies) == sorted(scene.id(n % 2, n // 2) for n in range(4))


async def test_an_idle_stream_writes_nothing(broker, topic):
    async with Scene(broker, topic(1), 1) as scene:

        async def orders(ctx, record):
            pass

        scene.declare(orders)
        worker = await scene.work()
        scene.send([1])
        await scene.until(lambda: stats(worker).finished == 1 and at(worker, 0).lag == 0)
        commits = stats(worker).commits
        await asyncio.sleep(0.6)  # nap: three commit intervals
        assert stats(worker).commits == max(commits, 1)


async def test_a_body_that_blocks_the_loop_past_the_session_keeps_its_partitions(broker, topic):
    async with Scene(broker, topic(1), 1) as scene:

        async def orders(ctx, record):
            if record["value"] == 0:
                time.sleep(8)  # noqa: ASYNC251 - what it is about: these tests' sessions end after 6 s of silence

        scene.declare(orders)
        worker = await scene.work()
        await scene.until(lambda: stats(worker).partitions)
        scene.send([0, 1, 2])
        await scene.until(lambda: stats(worker).finished == 3)
        await scene.until(lambda: at(worker, 0).committed == 3)
        assert stats(worker).rebalances == 1


async def test_an_eager_group_hands_over_too(broker, topic):
    async with Scene(broker, topic(2), 2) as scene:
        bodies: Counter[str] = Counter()

        async def orders(ctx, record):
            bodies[ctx.run_id] += 1
            await asyncio.sleep(0.005)

        scene.declare(orders, config={**QUICK, "partition.assignment.strategy": "range"})
        scene.send(list(range(200)))
        first = await scene.work("first")
        await scene.until(lambda: stats(first).finished > 0)
        second = await scene.work("second")
        await scene.until(lambda: len(stats(second).partitions) == 1)
        scene.send(list(range(100)))
        ids = [scene.id(n % 2, n // 2) for n in range(300)]
        await scene.until(lambda: len(bodies) == 300)
        await scene.until_completed(ids)
        assert set(bodies.values()) == {1}
        assert stats(first).finished and stats(second).finished
