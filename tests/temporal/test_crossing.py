"""Both ways from the SDK to the limiter: without a turn of the loop, and the SDK's own where it has another shape."""

import asyncio
import gc
import json
import sys
import threading
from types import SimpleNamespace

import pytest
from temporalio.worker import Worker, _tuning

from pyrula.temporal import WorkerLimiter, crossing
from pyrula.temporal.crossing import Crossing, CrossingTuner
from tests.temporal import support
from tests.temporal.support import LocalFanOut, fan_out, name, running, until
from tests.temporal.test_stop import HELD, nothing_left

POLLED = SimpleNamespace(slot_type="activity", is_sticky=False)


@pytest.fixture(params=["crossing", "the SDK's own"])
def way(request, monkeypatch):
    if request.param != "crossing":
        monkeypatch.setattr(crossing, "known", lambda: False)
    return request.param


def crossed(limiter, announced=True):
    """What the SDK's native part would call for activities."""
    limiter._gate.announced = announced
    return Crossing(limiter.worker_options()["tuner"]._get_activity_task_slot_supplier())


def one_place(hub, pool=9):
    return WorkerLimiter(
        "w", hub=hub, limits={"worker": {"activity_regular": (1, None)}}, task_poller_pool_size=pool
    )


def test_the_sdk_that_is_installed_has_the_shape_that_is_known(hub):
    assert isinstance(WorkerLimiter("w", hub=hub).worker_options()["tuner"], CrossingTuner)


async def turned(self, ctx, reserve_cb, patience):
    raise AssertionError("another shape")


@pytest.mark.parametrize("change", ["arguments", "calls", "no class", "holder"])
def test_an_sdk_of_another_shape_keeps_its_own_way(hub, monkeypatch, change):
    sdk = _tuning._BridgeSlotSupplierWrapper
    if change == "arguments":
        monkeypatch.setattr(sdk, "reserve_slot", turned)
    elif change == "calls":
        monkeypatch.setattr(sdk, "available_slots", turned, raising=False)
    elif change == "no class":
        monkeypatch.delattr(_tuning, "_BridgeSlotSupplierWrapper")
    else:
        monkeypatch.delattr(crossing._native, "TunerHolder")
    assert not isinstance(WorkerLimiter("w", hub=hub).worker_options()["tuner"], CrossingTuner)


async def test_a_limit_holds_on_either_way(client, hub, tally, way):
    queue = name()
    limits = {"worker": {"activity_regular": (3, 12), "workflow": (2, None)}}
    limiter = WorkerLimiter("w", hub=hub, limits=limits)
    async with running(client, queue, limiter):
        await (await fan_out(client, queue, 12, 0.3)).result()  # long enough to meet on a busy machine
    assert (len(tally.starts), tally.peak) == (12, 3)
    gc.collect()
    await until(lambda: nothing_left(hub))


@pytest.mark.parametrize("debug", [False, True])
async def test_a_worker_that_is_held_stops_at_once_on_either_way(client, hub, way, debug, caplog):
    asyncio.get_running_loop().set_debug(debug)
    limiter = WorkerLimiter("w", hub=hub, limits={"node": HELD})
    own = {"workflows": support.WORKFLOWS, "activities": support.ACTIVITIES}
    worker = Worker(client, task_queue=name(), **own, **limiter.worker_options())
    run = asyncio.create_task(worker.run())
    await until(lambda: len(hub.asks) >= 2)
    await asyncio.wait_for(worker.shutdown(), 1)
    await run
    gc.collect()
    await until(lambda: nothing_left(hub))
    assert "destroyed" not in caplog.text


async def test_local_activities_that_wait_are_let_go_on_either_way(client, hub, tally, way):
    queue = name()
    limiter = WorkerLimiter("w", hub=hub, limits={"worker": {"activity_direct": (1, None)}})
    async with running(client, queue, limiter):
        spec = json.dumps({"n": 4, "seconds": 0.3})
        await client.start_workflow(LocalFanOut.run, spec, id=name("wf"), task_queue=queue)
        await until(lambda: tally.running == 1)
    gc.collect()
    await until(lambda: nothing_left(hub))


async def test_a_place_is_handed_over_on_the_thread_that_freed_it(hub):
    sdk, handed = crossed(one_place(hub)), []
    first = sdk.reserve_slot(POLLED, None)
    held = first.result()
    second = sdk.reserve_slot(POLLED, None)
    assert asyncio.isfuture(second)
    assert asyncio.ensure_future(second) is second
    second.add_done_callback(lambda one: handed.append((threading.current_thread(), one.result())))
    assert not second.done()
    freeing = threading.Thread(target=sdk.release_slot, args=(SimpleNamespace(permit=held, slot_info=None),))
    freeing.start()
    freeing.join()
    ((where, permit),) = handed
    assert where is freeing
    assert second.done()
    sdk.release_slot(SimpleNamespace(permit=permit, slot_info=None))
    assert nothing_left(hub)


async def test_a_permit_that_was_granted_before_anyone_listened_is_handed_over_when_one_does(hub):
    sdk, handed = crossed(one_place(hub)), []
    held = sdk.reserve_slot(POLLED, None).result()
    second = sdk.reserve_slot(POLLED, None)
    sdk.release_slot(SimpleNamespace(permit=held, slot_info=None))
    assert second.done()
    second.add_done_callback(lambda one: handed.append(one.result()))
    sdk.release_slot(SimpleNamespace(permit=handed.pop(), slot_info=None))
    with pytest.raises(asyncio.CancelledError):
        second.result()
    assert nothing_left(hub)


async def test_what_the_sdk_gave_up_waits_no_longer_and_gives_its_place_back(hub):
    sdk, made = crossed(one_place(hub), announced=False), []
    held = sdk.reserve_slot(POLLED, made.append).result()
    waiting = sdk.reserve_slot(POLLED, made.append)
    waiting.add_done_callback(lambda one: pytest.fail("it was granted"))
    assert made[0].cancel() is False  # the SDK cancels whatever is over, too
    assert [one.cancel() for one in (waiting, waiting)] == [True, False]
    sdk.release_slot(SimpleNamespace(permit=held, slot_info=None))
    late = sdk.reserve_slot(POLLED, made.append)
    assert late.done()
    late.cancel()
    lost = sdk.reserve_slot(POLLED, made.append)
    assert lost.done()
    made.clear()
    del lost
    gc.collect()
    assert nothing_left(hub)


async def test_what_still_waits_when_its_worker_has_stopped_waits_no_longer(hub):
    limiter = one_place(hub)
    sdk = crossed(limiter)
    held = sdk.reserve_slot(POLLED, None).result()
    sdk.reserve_slot(POLLED, None).add_done_callback(lambda one: pytest.fail("it was granted"))
    limiter._gate.close()  # may run in a finaliser: the next call into the hub does the work
    limiter.stats()
    sdk.release_slot(SimpleNamespace(permit=held, slot_info=None))
    assert nothing_left(hub)


async def test_permits_that_are_granted_and_given_up_at_once_are_neither_lost_nor_doubled(hub):
    """Many threads, and a switch at almost every step of theirs."""
    sdk = crossed(one_place(hub), announced=False)
    loop, guard, counts = asyncio.get_running_loop(), threading.Lock(), {"held": 0, "most": 0, "used": 0}

    def use(one):
        permit = one.result()
        with guard:
            counts["held"] += 1
            counts["used"] += 1
            counts["most"] = max(counts["most"], counts["held"])
        loop.call_soon_threadsafe(give_back, permit)

    def give_back(permit):
        with guard:
            counts["held"] -= 1
        sdk.release_slot(SimpleNamespace(permit=permit, slot_info=None))

    def churn(seed):
        for index in range(150):
            one = sdk.reserve_slot(POLLED, lambda made: None)
            loop.call_soon_threadsafe(one.add_done_callback, use)
            if (index + seed) % 3 == 0:
                one.cancel()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=churn, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        await until(lambda: not any(thread.is_alive() for thread in threads))
        await until(lambda: nothing_left(hub))
    finally:
        sys.setswitchinterval(before)
    assert counts["most"] == 1
    assert counts["used"] >= 400


async def test_the_sdks_threads_stay_known_to_python(client, hub, tally):
    """Else each call of theirs would make a thread's state and its frames' memory anew."""
    here, calls, limiter = threading.local(), [], WorkerLimiter("w", hub=hub)
    options, queue = limiter.worker_options(), name()
    supplier = options["tuner"]._get_activity_task_slot_supplier()
    reserve = supplier.reserve

    def counted(ctx):
        here.calls = getattr(here, "calls", 0) + 1
        calls.append((threading.get_ident(), here.calls))
        return reserve(ctx)

    supplier.reserve = counted
    own = {"workflows": support.WORKFLOWS, "activities": support.ACTIVITIES}
    async with Worker(client, task_queue=queue, **own, **options):
        await (await fan_out(client, queue, 20, 0.0)).result()
    by_thread = {thread: [n for who, n in calls if who == thread] for thread, _ in calls}
    assert by_thread
    assert all(counts == list(range(1, len(counts) + 1)) for counts in by_thread.values())
    assert max(map(len, by_thread.values())) > 1
