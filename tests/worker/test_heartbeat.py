"""Heartbeats: off the loop, for as long as it may stall, and what happens when they fail."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula.clock import SECOND, SystemClock
from pyrula.errors import StoreClosed, StoreUnavailable
from pyrula.policies import Limit
from pyrula.store.open import open_store
from pyrula.store.protocol import Store
from pyrula.workflows.client import WorkflowClient
from pyrula.workflows.worker import Worker
from pyrula.workflows.worker.heartbeat import judge
from pyrula.workflows.workflow import Registry, workflow
from tests.worker.conftest import counted, fails, until


@pytest.mark.parametrize(
    ("now", "renewed", "ticked", "verdict"),
    [
        (10, 0, 10, "renew"),
        (74, 0, 70, "renew"),
        (75, 0, 75, "give up"),
        (95, 0, 95, "too late"),
        (500, 490, 100, "renew"),
        (501, 490, 100, "stalled"),
        (570, 490, 100, "give up"),
    ],
)
def test_what_a_heartbeat_does_next(now: int, renewed: int, ticked: int, verdict: str) -> None:
    assert judge(now, renewed, ticked, lease=100, stall=400) == verdict


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_heartbeat_never_renews_what_may_have_lapsed(age: int, idle: int, lease: int, stall: int) -> None:
    verdict = judge(10**7, 10**7 - age, 10**7 - idle, lease, stall)
    assert (verdict in ("give up", "too late")) == (age >= lease * 3 // 4)


async def test_a_body_that_blocks_the_loop_keeps_its_lease(
    store: Store, client: WorkflowClient, registry: Registry
) -> None:
    @workflow(registry=registry)
    async def blocking(ctx: Any) -> str:
        time.sleep(0.8)  # noqa: ASYNC251 - a body that does what it should not is what is tested
        return f"attempt {ctx.attempt}"

    async with Worker(store, registry, lease_seconds=0.3) as worker:
        life = worker.incarnation
        assert await client.execute("blocking") == "attempt 1"
        assert worker.incarnation == life or life == ""
        assert [row["worker_id"] for row in await store.workers()] == [worker.worker_id]


async def test_a_loop_that_stalls_too_long_loses_its_leases_and_the_worker_starts_anew(
    store: Store, client: WorkflowClient, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    stuck: list[str] = []
    lives: list[str] = []

    @workflow(registry=registry)
    async def blocking(ctx: Any) -> str:
        lives.append(worker.incarnation)
        if len(lives) == 1:
            time.sleep(1.2)  # noqa: ASYNC251 - a body that does what it should not is what is tested
        await asyncio.sleep(0)
        return "done"

    worker = Worker(store, registry, lease_seconds=0.3, stall_seconds=0.2, on_stuck=stuck.append)
    with caplog.at_level(logging.CRITICAL, "pyrula.worker"):
        async with worker:
            assert await client.execute("blocking") == "done"
    assert len(lives) == 2 and lives[0] != lives[1]
    assert stuck and "can't stop" in stuck[0]


async def test_a_worker_that_cannot_renew_stops_its_bodies_before_the_lease_lapses(
    store: Any, client: WorkflowClient, registry: Registry
) -> None:
    stopped: list[float] = []
    began: list[float] = []

    @workflow(registry=registry)
    async def long(ctx: Any) -> str:
        began.append(time.monotonic())
        try:
            await asyncio.sleep(30 if len(began) == 1 else 0)
        finally:
            stopped.append(time.monotonic())
        return "second life"

    heartbeat, turn = store.heartbeat, store.turn
    cut = threading.Event()

    def failing(incarnation: str) -> bool:
        if cut.is_set():
            raise StoreUnavailable("cut off")
        return bool(heartbeat(incarnation))

    async def turn_failing(request: Any) -> Any:
        if cut.is_set():
            raise StoreUnavailable("cut off")
        return await turn(request)

    store.heartbeat, store.turn = failing, turn_failing
    async with Worker(store, registry, lease_seconds=1):
        run_id = await client.submit("long")
        await until(lambda: began)
        cut.set()
        cut_at = time.monotonic()
        await until(lambda: stopped, 3)
        assert stopped[0] - cut_at < 0.95
        cut.clear()
        assert await client.result(run_id, timeout=5) == "second life"
    assert len(began) == 2


async def test_a_process_that_can_start_no_more_threads_keeps_its_leases(
    store: Any, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with counted(store, "heartbeat") as beats:
        async with Worker(store, registry, lease_seconds=0.3):
            await until(lambda: beats)
            monkeypatch.setattr(threading.Thread, "start", refuse)
            await until(lambda: len(beats) > 5, 5)
        assert len(set(beats)) == 1


async def test_an_outage_is_told_once_and_its_end_where_it_has_one(
    store: Any, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the outage is; and a store that was closed is not back."""
    disk, away, closed = OSError("disk"), StoreUnavailable("away"), StoreClosed("closed")
    left = fails(store, "heartbeat", disk, disk, None, away, closed)
    with caplog.at_level(logging.INFO, "pyrula.worker"):
        async with Worker(store, registry, lease_seconds=1):
            await until(lambda: not left)
    told = [each.message.partition(" of ")[2].partition(" ")[2] for each in caplog.records]
    assert told == ["failed: disk", "gets through again", "failed: away"]


async def test_a_heartbeat_that_the_store_keeps_waiting_does_not_keep_a_body_going(
    store: Any, client: WorkflowClient, registry: Registry
) -> None:
    """As a locked file does, or a server behind a wall that swallows packets."""
    stopped: list[float] = []
    began = asyncio.Event()

    @workflow(registry=registry)
    async def long(ctx: Any) -> None:
        if stopped:
            return
        began.set()
        try:
            await asyncio.sleep(30)
        finally:
            stopped.append(time.monotonic())

    heartbeat, walled, back = store.heartbeat, threading.Event(), threading.Event()

    def waiting(incarnation: str) -> bool:
        if walled.is_set():
            back.wait(10)
        return bool(heartbeat(incarnation))

    store.heartbeat = waiting
    try:
        async with Worker(store, registry, lease_seconds=1, grace_seconds=0):
            run_id = await client.submit("long")
            await began.wait()
            walled.set()
            walled_at = time.monotonic()
            await until(lambda: stopped, 3)
            assert stopped[0] - walled_at < 0.95
            walled.clear()
            back.set()
            await client.result(run_id, timeout=10)
    finally:
        back.set()


async def test_what_a_turn_brings_that_outlasts_the_lease_is_not_begun(
    store: Any, client: WorkflowClient, registry: Registry
) -> None:
    lives: list[str] = []

    @workflow(registry=registry)
    async def short(ctx: Any) -> None:
        lives.append(worker.incarnation)
        await asyncio.sleep(0.1)

    heartbeat, turn = store.heartbeat, store.turn
    held_up: list[str] = []

    def cut_off(incarnation: str) -> bool:
        if incarnation in held_up:
            raise StoreUnavailable("cut off")
        return bool(heartbeat(incarnation))

    async def held_up_with_claims(request: Any) -> Any:
        handed = await turn(request)
        if handed.claims and not held_up:
            held_up.append(request.incarnation)
            await until(lambda: worker._lives.turns.lost)
        return handed

    run_id = await client.submit("short")
    store.heartbeat, store.turn = cut_off, held_up_with_claims
    only_place = {"worker": {"workflow": (1, None)}}
    async with Worker(store, registry, lease_seconds=0.5, limits=only_place) as worker:
        await client.result(run_id, timeout=10)
    assert len(lives) == 1 and lives != held_up


async def test_what_a_process_was_handed_before_it_was_suspended_is_not_begun_when_it_wakes(
    registry: Registry,
) -> None:
    """It wakes in the middle of a turn, before its heartbeat has looked at the clock."""
    lives: list[str] = []
    asleep: list[str] = []

    class Suspended(SystemClock):
        def monotonic(self) -> int:
            return super().monotonic() + (90 * SECOND if asleep else 0)

    @workflow(registry=registry)
    async def short(ctx: Any) -> None:
        lives.append(worker.incarnation)

    async with open_store("sqlite://", clock=Suspended()) as opened:
        store: Any = opened
        turn = store.turn

        async def suspended(request: Any) -> Any:
            handed = await turn(request)
            if handed.claims and not asleep:
                asleep.append(request.incarnation)
            return handed

        store.turn = suspended
        client = WorkflowClient(store, registry)
        async with Worker(store, registry, lease_seconds=60) as worker:
            await client.execute("short", timeout=10)
        assert await store.check() == []
    assert len(lives) == 1 and lives != asleep


async def test_what_a_worker_gave_up_by_itself_is_begun_again_before_the_lease_has_lapsed(
    store: Any, client: WorkflowClient, registry: Registry
) -> None:
    """It was cut off for a while, and nobody else was there to notice."""
    lives: list[str] = []

    @workflow(concurrency=Limit(None, max=1), registry=registry)
    async def long(ctx: Any) -> None:
        lives.append(worker.incarnation)
        await asyncio.sleep(0 if len(lives) > 1 else 60)

    async with Worker(store, registry, lease_seconds=60) as worker:
        run_id = await client.submit("long")
        await until(lambda: lives)
        assert worker._lives is not None
        worker._lives.turns.lose("the leases could not be renewed in time")
        await client.result(run_id, timeout=10)
        assert len(set(lives)) == 2
        assert [row["worker_id"] for row in await store.workers()] == [worker.worker_id]


async def test_a_worker_that_was_given_up_hands_nothing_in_and_starts_anew(
    store: Any, client: WorkflowClient, registry: Registry
) -> None:
    began: list[str] = []
    gate = asyncio.Event()

    @workflow(registry=registry)
    async def long(ctx: Any) -> int:
        began.append(worker.incarnation)
        await gate.wait()
        return len(began)

    async with Worker(store, registry, lease_seconds=0.3) as worker:
        run_id = await client.submit("long")
        await until(lambda: began)
        await store.leave(worker.incarnation)  # as a reaper does
        await until(lambda: len(began) == 2, 5)
        gate.set()
        assert await client.result(run_id, timeout=5) == 2
    assert began[0] != began[1]
