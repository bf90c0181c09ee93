"""One worker and a real broker: each record one run, order per key, the flight, limiters, the way out."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from pyrula.kafka import KafkaRecord
from pyrula.workflows import Retry
from tests.kafka.scene import Scene, stats


async def test_each_record_is_one_run_in_the_order_of_its_key(broker, topic):
    partitions, count = 3, 240
    async with Scene(broker, topic(partitions), partitions) as scene:
        steps, starts, busy = [], defaultdict(list), set()

        async def charge(n: int) -> int:
            steps.append(n)
            return n

        async def orders(ctx, record: KafkaRecord):
            line = (record.partition, record.key)
            assert line not in busy
            busy.add(line)
            if not starts[line] or starts[line][-1] != record.offset:
                starts[line].append(record.offset)
            try:
                n = await ctx.step(charge, record.value["n"])
                if n % 40 == 7 and ctx.attempt == 1:
                    raise ValueError("once")
                if n % 30 == 3:
                    await ctx.sleep(0.02)
                return n
            finally:
                busy.discard(line)

        scene.declare(orders, policies={"retry": Retry(max_attempts=3, initial_seconds=0.01)})
        scene.send([{"n": n} for n in range(count)], key=lambda n: f"key-{n % 12}")
        worker = await scene.work()
        ids = [scene.id(n % partitions, n // partitions) for n in range(count)]
        await scene.until(lambda: stats(worker).finished == count)
        assert set(await scene.states(ids)) == {"completed"}
        assert sorted(steps) == list(range(count))
        assert all(offsets == sorted(offsets) for offsets in starts.values())
        assert sum(map(len, starts.values())) == count
        await scene.until(lambda: all(each.lag == 0 for each in stats(worker).partitions))
        await scene.until(lambda: [each.committed for each in stats(worker).partitions] == [80, 80, 80])
        assert (await scene.client.get(ids[0])).workflow == "orders"
        assert await scene.store.check() == []
        await worker.stop()
        assert scene.committed() == [80, 80, 80]


async def test_no_more_than_max_concurrency_are_in_flight_parked_ones_included(broker, topic):
    async with Scene(broker, topic(2), 2) as scene:
        begun = []

        async def orders(ctx, record):
            begun.append(ctx.run_id)
            await ctx.wait_for_event("go")

        scene.declare(orders, max_concurrency=4)
        scene.send(list(range(12)))
        worker = await scene.work()
        most = 0
        for _ in range(3):
            await scene.until(lambda: stats(worker).in_flight == 4 and worker.executing == 0)
            for _ in range(5):
                await asyncio.sleep(0.02)
                most = max(most, await scene.open_runs())
            for run in dict.fromkeys(begun):
                if (await scene.states([run])) == ["open"]:
                    await scene.client.send_event(run, "go", None)
        await scene.until(lambda: stats(worker).finished == 12)
        assert most == 4


async def test_finished_records_before_an_unfinished_one_are_committed_and_none_after_it(broker, topic):
    async with Scene(broker, topic(1), 1) as scene:

        async def orders(ctx, record):
            if record["value"] == 5:
                await ctx.wait_for_event("go")

        scene.declare(orders)
        scene.send(list(range(40)))
        worker = await scene.work()
        await scene.until(lambda: stats(worker).finished == 39)
        await worker.stop()
        assert scene.committed() == [5]
        again = await scene.work("again")
        await scene.until(lambda: stats(again).skipped == 34)
        await scene.client.send_event(scene.id(0, 5), "go", None)
        await scene.until(lambda: stats(again).finished == 35)
        await again.stop()
        assert scene.committed() == [40]


async def test_the_workers_own_limiters_apply_to_records(broker, topic):
    async with Scene(broker, topic(2), 2) as scene:
        inside, most = 0, 0

        async def orders(ctx, record):
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.005)
            inside -= 1

        scene.declare(orders, max_concurrency=10)
        scene.send(list(range(20)))
        worker = await scene.work(limits={"worker": {"workflow": (2, None)}}, limiter_check_frequency=0.05)
        await scene.until(lambda: stats(worker).finished == 20)
        assert most == 2


async def test_a_run_cancelled_by_hand_is_passed(broker, topic):
    async with Scene(broker, topic(1), 1) as scene:

        async def orders(ctx, record):
            if record["value"] == 0:
                await ctx.wait_for_event("never")

        scene.declare(orders)
        scene.send([0, 1], key=lambda n: "same")
        worker = await scene.work()
        await scene.until(lambda: stats(worker).in_flight == 1 and worker.executing == 0)
        assert await scene.states([scene.id(0, 1)]) == [None]
        await scene.client.cancel(scene.id(0, 0))
        await scene.until(lambda: stats(worker).finished == 2)
        assert await scene.states([scene.id(0, 0), scene.id(0, 1)]) == ["cancelled", "completed"]


async def test_a_group_that_begins_at_the_end_begins_there_once(broker, topic):
    async with Scene(broker, topic(1), 1) as scene:
        seen = []

        async def orders(ctx, record):
            seen.append(record["value"])

        scene.declare(orders, start="latest")
        scene.send([0, 1, 2])
        first = await scene.work("first")
        await scene.until(lambda: stats(first).partitions)
        await first.stop()
        assert scene.committed() == [3]
        scene.send([3, 4])  # while nobody consumes
        second = await scene.work("second")
        await scene.until(lambda: stats(second).finished == 2)
        assert seen == [3, 4]
