"""T. Time zones."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from pyrula.workflows import Debounce, Limit
from tests.cases.fleet import Fleet
from tests.cases.scene import OTHER, Bystander, Scene, assert_times

TOKYO = {"TZ": "Asia/Tokyo"}


@pytest.fixture
def tokyo() -> Iterator[None]:
    """This process, and what it starts, lives in Tokyo."""
    before = os.environ.get("TZ")
    os.environ.update(TOKYO)
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.fixture
def shared_url(shared_url: str) -> str:
    """On PostgreSQL, in a database whose sessions live in Brazil."""
    if not shared_url.startswith("postgresql"):
        return shared_url
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(shared_url.partition("?")[0], autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = 'sao_paulo'").fetchall():
            connection.execute("CREATE DATABASE sao_paulo")
            connection.execute("ALTER DATABASE sao_paulo SET TimeZone = 'America/Sao_Paulo'")
    return shared_url.replace("/postgres?", "/sao_paulo?")


async def test_case_142_no_time_zone_moves_a_delay_a_window_or_a_lease(
    tokyo: None, scene: Scene, bystander: Bystander
) -> None:
    scene.declare(concurrency=Limit("k", 1))
    scene.declare("d", trigger=Debounce("k", 5))
    await scene.work()
    await scene.one(options={"delay": 5})
    await scene.client.trigger("d", {"k": "batch"})
    await bystander.queue()
    await scene.reach(60)
    assert_times(scene.times(), [5])
    assert_times(scene.times("batch"), [5])
    (worker,) = await scene.env.store.workers()
    assert 0 < (worker["expires_at"] - scene.env.clock.today).total_seconds() <= 30


async def test_case_142_a_worker_in_tokyo_on_a_database_in_brazil_is_on_time(
    tokyo: None, fleet: Fleet
) -> None:
    """With a real process and the server's clock; 1 s in place of 5."""
    worker = fleet.work(window=1, environment=TOKYO)
    await fleet.ready(worker)
    await fleet.client.trigger("d", {"k": "k"})
    delayed = await fleet.client.submit("w", {"k": "k"}, delay=1)
    at = time.time()
    other = await fleet.submit(k=OTHER)
    await fleet.until(lambda: len(fleet.notes("start")) == 3, within=10)
    (batch,) = [note for note in fleet.notes("start") if note.run_id not in (delayed, other)]
    assert 0.9 <= fleet.starts(delayed)[0] - at <= 2
    assert 0.9 <= batch.at - at <= 2
    assert fleet.starts(other)[0] <= fleet.submitted[other] + 1
    (found,) = await fleet.store.workers()
    assert 0 < (found["expires_at"] - datetime.now(UTC)).total_seconds() <= 31
    run = await fleet.client.get(delayed)
    assert abs((datetime.now(UTC) - run.submitted_at).total_seconds()) < 15
