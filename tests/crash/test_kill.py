"""SIGKILL: no run is lost, none is in two live bodies, no key exceeds its limit, no finished step is
repeated."""

from __future__ import annotations

import asyncio
import time

from tests.crash.conftest import Crew
from tests.crash.notes import Note, peaks, stays


def test_the_checker_sees_a_run_in_two_bodies_and_a_key_above_its_limit() -> None:
    notes = [
        Note(0, 1, "start", "a", "k"),
        Note(1, 2, "start", "b", "k"),
        Note(2, 3, "start", "a", "k"),
        Note(3, 2, "end", "b", "k"),
        Note(4, 3, "end", "a", "k"),
    ]
    assert peaks(stays(notes, {1: 2.5}, 9), "run_id") == {"a": 2, "b": 1}
    assert peaks(stays(notes, {1: 2.5}, 9), "key") == {"k": 3}
    assert peaks(stays(notes, {1: 1.5}, 9), "run_id") == {"a": 1, "b": 1}


async def test_four_processes_on_one_file_lose_nothing_when_one_of_them_is_killed(crew: Crew) -> None:
    most, keys = 2, [f"key{n}" for n in range(6)]
    workers = [crew.work(lease_seconds=2, max_concurrent_runs=3) for _ in range(4)]
    await crew.ready(*workers)
    seconds = [0.05, 0.3, 1.0, 0.1, 5.0, 0.2]
    runs = await crew.client.submit_many(
        "work", [{"key": keys[i % 6], "seconds": seconds[(i // 6) % 6]} for i in range(72)]
    )
    await crew.until(lambda: len(crew.notes("start")) >= 8)
    slowest, extra = 0.0, []
    victim = workers[1]
    await crew.until(
        lambda: any(stay.pid == victim.pid and stay.ended - stay.began > 0 for stay in crew.stays())
    )
    for n in range(100):  # submits get in while turns run back to back
        began = time.monotonic()
        extra += await crew.client.submit_many("noop", [{}] * 5)
        slowest = max(slowest, time.monotonic() - began)
        if n == 30:
            crew.kill(victim)
        await asyncio.sleep(0.01)
    results = await asyncio.gather(*(crew.client.result(one, timeout=40) for one in runs))
    assert results == [keys[i % 6] for i in range(72)]
    await asyncio.gather(*(crew.client.result(one, timeout=20) for one in extra))
    found = crew.stays()
    assert max(peaks(found, "run_id").values()) == 1
    assert {key: peak for key, peak in peaks(found, "key").items() if peak > most} == {}
    bodies = [stay.run_id for stay in found]
    again = {one for one in bodies if bodies.count(one) > 1}
    assert again <= {stay.run_id for stay in found if stay.pid == victim.pid}, "heartbeats did not get in"
    assert slowest < 1
    assert await crew.store.check() == []


async def test_finished_steps_are_not_repeated_after_a_kill(crew: Crew) -> None:
    first = crew.work(lease_seconds=0.5)
    run_id = await crew.client.submit("steps", {"n": 8})
    await crew.until(lambda: crew.notes("step4"))
    crew.kill(first)
    crew.work(lease_seconds=0.5)
    assert await crew.client.result(run_id, timeout=20) == 28
    counts = {n: len(crew.notes(f"step{n}")) for n in range(8)}
    assert {n for n, count in counts.items() if count > 1} <= {4}, counts
    assert sum(counts.values()) <= 9


async def test_a_run_of_a_killed_worker_that_is_cancelled_ends_with_the_lease(crew: Crew) -> None:
    dead = crew.work(lease_seconds=1)
    run_id = await crew.client.submit("work", {"key": "k", "seconds": 60})
    await crew.until(lambda: crew.notes("start"))
    crew.kill(dead)
    crew.work(lease_seconds=1)
    await crew.client.cancel(run_id)
    killed = crew.died[dead.pid]

    async def cancelled() -> float:
        while (await crew.client.get(run_id)).state != "cancelled":  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.02)
        return time.monotonic() - killed

    assert await asyncio.wait_for(cancelled(), 20) < 6  # a second of lease; the heir has to start, too
    assert len(crew.notes("start")) == 1
