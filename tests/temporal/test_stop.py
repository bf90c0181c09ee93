"""Stopping: nothing waits, nothing is lost, whatever was blocked."""

import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor
from datetime import timedelta
from types import SimpleNamespace

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from pyrula.temporal import PollRate, WorkerLimiter
from pyrula.temporal.limiter import Pollers
from tests.temporal import support
from tests.temporal.support import LocalFanOut, fan_out, name, running, until

HELD = dict.fromkeys(("workflow", "activity_regular", "activity_direct", "nexus"), (0, None))
NO_LOCAL = {"worker": {"activity_direct": (0, None)}}


def nothing_left(hub):
    hub.node.stats()  # any call settles what finalisers left
    stats = hub.node.stats()
    return not any(stats.concurrency.values()) and not any(stats.reserved.values()) and not hub.asks


def threads():
    return {thread for thread in threading.enumerate() if thread.name.startswith("pyrula")}


async def stopped_within(worker, seconds):
    begin = time.monotonic()
    await asyncio.wait_for(worker.shutdown(), seconds)
    return time.monotonic() - begin


@pytest.mark.parametrize("debug", [False, True])
async def test_a_worker_that_is_held_everywhere_stops_at_once(client, hub, debug, caplog):  # field report 181
    asyncio.get_running_loop().set_debug(debug)
    limiter = WorkerLimiter("w", hub=hub, limits={"node": HELD})
    worker = Worker(
        client,
        task_queue=name(),
        workflows=support.WORKFLOWS,
        activities=support.ACTIVITIES,
        **limiter.worker_options(),
    )
    run = asyncio.create_task(worker.run())
    await until(lambda: len(hub.asks) >= 2)
    took = await stopped_within(worker, 10)
    await run
    assert took < 1
    gc.collect()
    await until(lambda: nothing_left(hub))
    assert "destroyed" not in caplog.text


@pytest.mark.parametrize("debug", [False, True])
async def test_a_worker_with_work_and_more_waiting_stops_when_its_work_ends(client, hub, tally, debug):
    asyncio.get_running_loop().set_debug(debug)
    queue = name()
    limiter = WorkerLimiter("w", hub=hub, limits={"worker": {"activity_regular": (1, None)}})
    async with running(client, queue, limiter):
        await fan_out(client, queue, 5, 0.3)
        await until(lambda: tally.running == 1)
        begin = time.monotonic()
    assert time.monotonic() - begin < 1
    gc.collect()
    await until(lambda: nothing_left(hub))


async def test_a_local_activity_that_waits_behind_a_limit_does_not_keep_its_worker_from_stopping(
    client, hub, tally
):
    queue = name()
    limits = {"worker": {"activity_direct": (1, None)}}
    limiter = WorkerLimiter("w", hub=hub, limits=limits)
    async with running(client, queue, limiter):
        spec = json.dumps({"n": 4, "seconds": 0.3})
        await client.start_workflow(LocalFanOut.run, spec, id=name("wf"), task_queue=queue)
        await until(lambda: tally.running == 1)
        begin = time.monotonic()
    took = time.monotonic() - begin
    print(f"stopped with three local activities queued in {took:.2f} s")
    assert took < 1
    gc.collect()
    await until(lambda: nothing_left(hub))


async def shut_down(worker, run, go):
    await worker.shutdown()
    await run


async def cancelled(worker, run, go):
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def failed(worker, run, go):
    go.set()
    with pytest.raises(RuntimeError, match="Activity worker failed"):
        await run


@pytest.mark.parametrize("way", [shut_down, cancelled, failed])
async def test_local_activities_that_may_not_start_at_all_do_not_keep_a_worker_from_stopping(
    server, hub, tally, way
):
    """Several times over: when the polls end, a place comes free, and whoever waited for one learns nothing else."""

    @activity.defn
    async def broken():  # the SDK fails the whole worker for it
        await go.wait()
        raise BrokenExecutor

    took = []
    for _ in range(8):
        client, queue, go = await Client.connect(server.address), name(), asyncio.Event()
        limiter = WorkerLimiter("w", hub=hub, limits=None if way is failed else NO_LOCAL)
        worker = Worker(
            client,
            task_queue=queue,
            workflows=support.WORKFLOWS,
            activities=[*support.ACTIVITIES, broken],
            no_remote_activities=way is not failed,
            **limiter.worker_options(),
        )
        run = asyncio.create_task(worker.run())
        if way is failed:
            minute = timedelta(minutes=1)
            await client.start_activity(
                broken, id=name("act"), task_queue=queue, start_to_close_timeout=minute
            )
            await until(lambda limiter=limiter: limiter.stats().concurrency["activity_regular"] == 1)
        limiter.set_limiter_config(limits=NO_LOCAL)
        # A worker that failed fails its local activities, and the SDK tries them again for as long as it may.
        spec = json.dumps({"n": 2, "seconds": 0.0, "attempts": 1})
        await client.start_workflow(LocalFanOut.run, spec, id=name("wf"), task_queue=queue)
        await until(lambda limiter=limiter: limiter.stats().concurrency["workflow"] == 1)
        await asyncio.sleep(0.1)
        assert way is failed or len(tally.starts) == 0
        begin = time.monotonic()
        await asyncio.wait_for(way(worker, run, go), 10)
        took.append(time.monotonic() - begin)
        tally.reset()
        limiter.close()
    assert statistics.median(took) < 1


async def test_a_limiter_serves_the_next_worker_after_a_stop(client, hub, tally):
    queue = name()
    limiter = WorkerLimiter("w", hub=hub, limits={"worker": {"activity_direct": (1, None)}})
    for _ in range(2):
        tally.reset()
        options = limiter.worker_options()
        own = {"workflows": support.WORKFLOWS, "activities": support.ACTIVITIES}
        async with Worker(client, task_queue=queue, **own, **options):
            spec = json.dumps({"n": 4, "seconds": 0.02})
            await client.execute_workflow(LocalFanOut.run, spec, id=name("wf"), task_queue=queue)
        assert (len(tally.starts), tally.peak) == (4, 1)


async def test_run_cancelled_with_six_activities_leaves_nothing(client, hub, tally):
    queue = name()
    limiter = WorkerLimiter("w", hub=hub, limits={"worker": {"activity_regular": (6, None)}})
    own = {"workflows": support.WORKFLOWS, "activities": support.ACTIVITIES}
    worker = Worker(client, task_queue=queue, **own, **limiter.worker_options())
    run = asyncio.create_task(worker.run())
    await fan_out(client, queue, 9, 30.0)
    await until(lambda: tally.running == 6)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, 10)
    gc.collect()
    await until(lambda: nothing_left(hub))


async def test_no_permit_is_lost_when_a_timeout_fires_as_it_frees(hub):  # field report 180
    limiter = WorkerLimiter(
        "w", hub=hub, limits={"worker": {"activity_regular": (1, None)}}, task_poller_pool_size=9
    )
    supplier = limiter.worker_options()["tuner"]._get_activity_task_slot_supplier()
    ctx = SimpleNamespace(slot_type="activity", is_sticky=False)
    held = await supplier.reserve_slot(ctx)
    for round_ in range(200):
        waiting = asyncio.ensure_future(asyncio.wait_for(supplier.reserve_slot(ctx), 0.001))
        await asyncio.sleep(0.0004 * (round_ % 5))
        supplier.release_slot(SimpleNamespace(permit=held, slot_info=None))
        try:
            held = await waiting
        except TimeoutError:
            held = await asyncio.wait_for(supplier.reserve_slot(ctx), 1)
        assert limiter.stats().reserved["activity_regular"] == 1
    supplier.release_slot(SimpleNamespace(permit=held, slot_info=None))
    assert nothing_left(hub)


async def test_a_permit_that_the_sdk_loses_comes_back(hub):
    limiter = WorkerLimiter("w", hub=hub, limits={"worker": {"activity_regular": (1, None)}})
    supplier = limiter.worker_options()["tuner"]._get_activity_task_slot_supplier()
    ctx = SimpleNamespace(slot_type="activity", is_sticky=False)
    permit = await supplier.reserve_slot(ctx)
    supplier.mark_slot_used(SimpleNamespace(permit=permit, slot_info=None))
    del permit
    gc.collect()
    assert await asyncio.wait_for(supplier.reserve_slot(ctx), 2)


async def test_a_limiter_that_fails_waits_instead_of_spinning(client, hub, monkeypatch, caplog):
    calls = []

    def broken(self):
        calls.append(1)
        raise RuntimeError("broken on purpose")

    limiter = WorkerLimiter("w", hub=hub)
    with monkeypatch.context() as patched:
        patched.setattr(Pollers, "allow", broken)
        queue = name()
        async with running(client, queue, limiter):
            await asyncio.sleep(1.2)
            assert len(calls) < 40
            patched.undo()
            assert await client.execute_workflow(support.Chain.run, 0, id=name("wf"), task_queue=queue) == 0
    assert caplog.text.count("the limiter failed") == 1


def test_two_loops_in_two_threads_share_one_hub(server, hub, tally):
    limits = {"node": {"activity_regular": (3, None)}}

    async def one(index):
        client, queue = await Client.connect(server.address), name()
        limiter = WorkerLimiter(
            f"w{index}", hub=hub, limits=limits, strict=True, limiter_check_frequency=0.02
        )
        async with running(client, queue, limiter, max_concurrent_workflow_tasks=None):
            await (await fan_out(client, queue, 15, 0.03)).result()

    loops = [threading.Thread(target=lambda i=i: asyncio.run(one(i), debug=i == 0)) for i in range(2)]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join(60)
    assert len(tally.starts) == 30
    assert tally.peak <= 3
    gc.collect()
    assert nothing_left(hub)


async def test_three_hundred_starts_and_stops_leave_nothing(client, hub, tally):
    before = threads()
    limits = {"os": {"mem": 99}, "worker": {"activity_regular": (1, None), "workflow": (3, None)}}
    begin = time.monotonic()
    for index in range(300):
        queue = name()
        limiter = WorkerLimiter(
            "w", hub=hub, limits=limits, task_poller_limiter=PollRate(900, 1) if index % 2 else None
        )
        own = {"workflows": support.WORKFLOWS, "activities": support.ACTIVITIES}
        worker = Worker(client, task_queue=queue, **own, **limiter.worker_options())
        run = asyncio.create_task(worker.run())
        if index % 10 == 0:
            await (await fan_out(client, queue, 2, 0.0)).result()
        else:
            await asyncio.sleep(0.001 * (index % 7))
        await worker.shutdown()
        await run
        limiter.close()
        del worker, limiter, run
    print(f"300 starts and stops in {time.monotonic() - begin:.1f} s")
    gc.collect()
    assert nothing_left(hub)
    assert len(hub._limiters) == 0
    await until(lambda: threads() == before)


async def test_counters_end_at_nothing_even_if_limiters_are_never_closed(client, hub):
    limiters = []
    for index in range(40):
        limiter = WorkerLimiter(f"w{index}", hub=hub, limits={"node": {"activity_regular": (5, None)}})
        limiters.append(limiter)
        own = {"workflows": support.WORKFLOWS, "activities": support.ACTIVITIES}
        worker = Worker(client, task_queue=name(), **own, **limiter.worker_options())
        run = asyncio.create_task(worker.run())
        await asyncio.sleep(0.001 * (index % 7))
        await worker.shutdown()
        await run
        del worker, run
    gc.collect()
    await until(lambda: nothing_left(hub))
    del limiter, limiters
    gc.collect()
    assert len(hub._limiters) == 0


def test_a_server_that_is_killed_makes_no_churn_and_the_worker_still_stops():
    """In a program of its own: the SDK's native threads may abort one that ends right after its worker."""
    code = """
import asyncio, os, sys, time
from temporalio.client import Client
from temporalio.worker import Worker
from pyrula.limiters import Hub
from pyrula.temporal import WorkerLimiter
from tests.temporal import support

async def main():
    server, hub = support.Server(), Hub()
    client = await Client.connect(server.address)
    limiter = WorkerLimiter("w", hub=hub, limits={"worker": {"activity_regular": (2, None)}})
    options = limiter.worker_options()
    supplier = options["tuner"]._get_activity_task_slot_supplier()
    calls, reserve = [], supplier.reserve
    def counted(ctx):
        calls.append(time.monotonic())
        return reserve(ctx)
    supplier.reserve = counted
    own = {"workflows": support.WORKFLOWS, "activities": support.ACTIVITIES}
    worker = Worker(client, task_queue="tq", **own, **options)
    run = asyncio.create_task(worker.run())
    await asyncio.sleep(1)
    before = len(calls)
    server.process.kill()
    server.process.wait()
    await asyncio.sleep(2)
    churn = len(calls) - before
    begin = time.monotonic()
    await asyncio.wait_for(worker.shutdown(), 20)
    took = time.monotonic() - begin
    print(f"churn {churn} stop {took:.2f}", flush=True)
    assert churn < 50, churn

asyncio.run(main())
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ},
    )
    print(done.stdout, done.stderr[-2000:])
    assert done.returncode == 0
