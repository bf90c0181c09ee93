"""Events: a Temporal worker tells what pyrula's own tell."""

import asyncio

from pyrula.limiters import TaskCounter, WaitStarted, WaitStopped
from pyrula.temporal import WorkerLimiter
from tests.temporal.support import fan_out, name, running

KIND = "activity_regular"


async def test_windows_and_waits_of_a_worker_are_told(client, hub, tally):
    queue, told = name(), []
    stop = hub.listen(told.append)
    limiter = WorkerLimiter(
        "w",
        "there",
        hub=hub,
        limits={"worker": {KIND: (2, 4)}},
        limiter_time_windows={KIND: 3},
        limiter_check_frequency=0.1,
        task_poller_pool_size=2,
    )
    async with running(client, queue, limiter):
        handle = await fan_out(client, queue, 10, 0.05)
        await handle.result()
        await asyncio.sleep(3.1)
    stop()
    windows = [event for event in told if isinstance(event, TaskCounter) and event.limitable == KIND]
    assert {(event.level, event.name, event.time_window) for event in windows} == {("worker", "w", 3)}
    assert sum(event.frequency for event in windows) == 10
    assert max(event.frequency for event in windows) <= 4
    waits = [
        event for event in told if isinstance(event, WaitStarted | WaitStopped) and event.limitable == KIND
    ]
    assert waits[0].limited_by == (("worker", KIND),)
    assert 0 < waits[0].limiter_delay <= 0.1
    held = [event.limited_by["worker", KIND] for event in waits if isinstance(event, WaitStopped)]
    assert any(1 < seconds < 3.5 for seconds in held), held
    assert [type(event) for event in waits[:4]] == [WaitStarted, WaitStopped] * 2
