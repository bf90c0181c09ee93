"""Eight worker processes, of which some are killed, on a server that is killed too: nothing is lost or exceeded."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrula.workflows import WorkflowClient, open_store
from tests.postgres.crew import MAX, Crew, Stay, declare, peaks, started_too_early, twice
from tests.postgres.server import Server

RUNS = int(os.environ.get("PYRULA_STORM_RUNS", "1500"))
"""The full storm is PYRULA_STORM_RUNS=20000."""
KEYS = 50


@pytest.fixture
def crew(own_server: Server, schema: str, tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(own_server.url(schema), tmp_path, lease=2.0)
    yield crew
    crew.close()


def test_the_checkers_see_what_they_look_for() -> None:
    a = Stay("r1", "k", 1, 0, 0.0, 2.0)
    b = Stay("r1", "k", 2, 10, 1.0, 3.0)
    c = Stay("r2", "k", 2, 20, 1.5, 3.0)
    assert peaks([a, b, c]) == {"k": 3}
    assert twice([a, b, c]) == ["r1"]
    assert twice([a, c]) == []
    crowd = [Stay(f"r{n}", "k", 1, n, 0.0, 1.0) for n in range(6)]
    assert started_too_early(crowd) == ["r5"]
    assert started_too_early(crowd[:5]) == []


@pytest.mark.timeout(900)
async def test_a_storm_of_kills_loses_nothing_and_exceeds_nothing(crew: Crew, own_server: Server) -> None:
    registry = declare(str(crew.notes))
    for _ in range(8):
        crew.start()
    async with open_store(crew.url) as store:
        client = WorkflowClient(store, registry=registry)
        ids: list[str] = []
        for start in range(0, RUNS, 250):
            params = [{"k": f"k{n % KEYS}"} for n in range(start, min(RUNS, start + 250))]
            ids += await client.submit_many("storm", params)
            if start == 250:
                await _until(lambda: len(crew.notes.read_text().splitlines()) > 60, crew)
                for worker in crew.workers[:2]:
                    crew.kill(worker)
                own_server.kill()
                own_server.start()
            if start == 750:
                for worker in crew.workers[2:5]:
                    crew.kill(worker)
                    crew.start()
                own_server.kill()
                own_server.start()
        crew.start()
        results = await asyncio.wait_for(
            asyncio.gather(*(client.result(run_id) for run_id in ids)), timeout=800
        )
        assert results == [f"k{n % KEYS}" for n in range(RUNS)]
        await _until_quiet(store)
        assert await store.check() == []
        assert {gate.in_use for gate in await client.gates(limit=1000)} <= {0, None}
    stays = crew.stays()
    assert {stay.run_id for stay in stays} == set(ids)
    assert twice(stays) == []
    assert max(peaks(stays).values()) <= MAX
    assert started_too_early(stays) == []


async def _until_quiet(store: object) -> None:
    """The last outcome is handed in after its body's last note."""
    for _ in range(200):
        overview = await store.overview()  # type: ignore[attr-defined]  # a store of PostgreSQL has it
        if not overview["executing"]:
            return
        await asyncio.sleep(0.05)


async def _until(holds: object, crew: Crew, within: float = 60) -> None:
    give_up = time.monotonic() + within
    while not holds():  # type: ignore[operator]  # the caller gives a function
        assert time.monotonic() < give_up, crew.said()
        await asyncio.sleep(0.02)
