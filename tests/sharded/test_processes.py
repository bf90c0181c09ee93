"""Four worker processes on three shards, one of them killed: counters are exact, nothing is lost."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cases.fleet import Fleet
from tests.sharded.places import SHARDS, key_on, shard_of

KEYS = [key_on(n % SHARDS, n // SHARDS) for n in range(9)]
RUNS = 540


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    made = Fleet(" ".join(f"sqlite:///{tmp_path / f'{number}.db'}" for number in range(SHARDS)), tmp_path)
    yield made
    await made.close()


async def test_limits_are_exact_over_shards_and_processes_though_one_is_killed(fleet: Fleet) -> None:
    workers = [fleet.work(max=2, lease_seconds=2, places=20) for _ in range(4)]
    await fleet.ready(*workers)
    params = [{"k": KEYS[n % len(KEYS)], "seconds": 0.005} for n in range(RUNS)]
    half = RUNS // 2
    runs = await fleet.client.submit_many("w", params[:half])
    runs += await fleet.client.submit_many("w", params[half:], run_ids=[f"mine-{n}" for n in range(half)])
    await fleet.until(lambda: len(fleet.notes("end")) > RUNS // 4)
    fleet.kill(workers[0], signal.SIGKILL)
    for run_id in runs:
        await fleet.client.result(run_id, timeout=60)
    assert {note.run_id for note in fleet.notes("end")} == set(runs)
    assert {key: fleet.peak(key) for key in KEYS} == dict.fromkeys(KEYS, 2)
    places = [await shard_of(fleet.store, run_id) for run_id in runs[: len(KEYS)]]
    assert places == [n % SHARDS for n in range(len(KEYS))]
    ran_twice = [run_id for run_id in runs if len(fleet.starts(run_id)) > 1]
    assert len(ran_twice) <= 18, "only what the killed one executed: 2 of each key at most"
    assert await fleet.store.check() == []
    assert {gate.in_use for gate in await fleet.store.gates("w.limit")} == {0}
