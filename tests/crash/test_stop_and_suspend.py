"""SIGTERM, and SIGSTOP past the lease."""

from __future__ import annotations

import asyncio
import signal
import time

from tests.crash.conftest import Crew


async def test_sigterm_hands_back_what_outlasts_the_grace_with_its_slots_free_at_once(crew: Crew) -> None:
    worker = crew.work(lease_seconds=30, grace_seconds=0.2)
    run_id = await crew.client.submit("work", {"key": "k", "seconds": 60})
    await crew.until(lambda: crew.notes("start"))
    began = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.wait, 10) == 0
    assert time.monotonic() - began < 3
    assert (await crew.client.get(run_id)).state == "queued"
    assert [gate.in_use for gate in await crew.client.gates()] == [0]
    assert await crew.store.workers() == []


async def test_sigterm_lets_bodies_end_within_the_grace(crew: Crew) -> None:
    worker = crew.work(grace_seconds=20)
    run_id = await crew.client.submit("work", {"key": "k", "seconds": 0.5})
    await crew.until(lambda: crew.notes("start"))
    worker.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.wait, 10) == 0
    assert await crew.client.result(run_id, timeout=1) == "k"


async def test_the_command_line_worker_stops_on_sigterm_too(crew: Crew) -> None:
    worker = crew.start(
        "pyrula", "worker", "tests.crash.app:registry", "--store", crew.url, "--grace", "0.2",
        PYRULA_TEST_NOTES=str(crew.notes_file),
    )  # fmt: skip
    run_id = await crew.client.submit("work", {"key": "k", "seconds": 60})
    await crew.until(lambda: crew.notes("start"), 20)
    worker.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.wait, 10) == 0
    assert (await crew.client.get(run_id)).state == "queued"


async def test_the_command_line_worker_ends_its_process_where_a_thread_goes_on(crew: Crew) -> None:
    worker = crew.start(
        "pyrula", "worker", "tests.crash.app:registry", "--store", crew.url, "--grace", "0",
        "--lease-seconds", "1",
        PYRULA_TEST_NOTES=str(crew.notes_file),
    )  # fmt: skip
    run_id = await crew.client.submit("threaded", {"seconds": 60})
    await crew.until(lambda: crew.notes("start"), 20)
    worker.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.wait, 15) != 0
    assert "threads of runs" in crew.output(worker)
    crew.work(lease_seconds=1)  # its slot and lease lapse, and another takes the run up
    await crew.until(lambda: len(crew.notes("start")) == 2)
    assert crew.notes("start")[1].run_id == run_id


async def test_a_worker_suspended_past_its_lease_hands_nothing_in_and_starts_anew(
    crew: Crew,
) -> None:
    first = crew.work(lease_seconds=1)
    run_id = await crew.client.submit("work", {"key": "k", "seconds": 6})
    await crew.until(lambda: crew.notes("start"))
    await crew.suspend(first)
    second = crew.work(lease_seconds=1)
    await crew.until(lambda: len(crew.notes("start")) == 2, 10)
    assert crew.notes("start")[1].pid == second.pid
    await asyncio.sleep(2)
    woken = time.monotonic()
    first.send_signal(signal.SIGCONT)
    await crew.until(lambda: crew.notes("end"))
    ended = crew.notes("end")[0]
    assert ended.pid == first.pid and ended.at - woken < 1  # its body is stopped as soon as it wakes
    assert await crew.client.result(run_id, timeout=20) == "k"
    assert crew.notes("end")[1].pid == second.pid
    second.send_signal(signal.SIGTERM)
    await asyncio.to_thread(second.wait, 15)
    other = await crew.client.submit("work", {"key": "k"})
    assert await crew.client.result(other, timeout=10) == "k"
    assert crew.notes("end")[-1].pid == first.pid
