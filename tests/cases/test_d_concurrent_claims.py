"""D. Claims at the same time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from pyrula.model.outcome import Completed
from pyrula.workflows import Limit, Rate, Registry, Workflow, WorkflowClient, open_store, workflow
from tests.cases.counting import count_rows
from tests.cases.fleet import Fleet
from tests.cases.hand import Hand
from tests.cases.scene import OTHER, Scene

PAGE = 64
"""More than the runs that a claim reads ahead."""


def declared(**policies: Any) -> tuple[Registry, Workflow[..., Any]]:
    registry = Registry()

    @workflow(name="w", registry=registry, **policies)
    async def work(ctx: Any, k: str, n: int = 0) -> None:
        """Nobody runs it: its runs are handed out by hand."""

    return registry, work


@pytest.mark.parametrize("workers", [2, 8])
async def test_case_023_claims_released_together_never_exceed_the_limit(
    shared_url: str, workers: int
) -> None:
    """Each worker has a store, and so a connection, of its own. 100 rounds where many write at once: on one shard of
    PostgreSQL; else 10."""
    registry, work = declared(concurrency=Limit("k", 1))
    stores = [open_store(shared_url) for _ in range(workers)]
    client = WorkflowClient(stores[0], registry)
    hands = [Hand(store, work, f"w{number}") for number, store in enumerate(stores)]
    for hand in hands:
        await hand.register()
    executed: Counter[str] = Counter()
    expected: set[str] = set()
    for _ in range(_rounds(shared_url)):
        expected.update(await client.submit_many("w", [{"k": "k"}] * 8 + [{"k": OTHER}]))
        held: dict[Hand, list[Any]] = {hand: [] for hand in hands}
        while executed.keys() != expected:
            answers = await asyncio.gather(*(_turn(hand, held[hand]) for hand in hands))
            claims = dict(zip(hands, answers, strict=True))
            held = {hand: [claim.lease for claim in claimed] for hand, claimed in claims.items()}
            ran = [claim for claimed in answers for claim in claimed]
            executed.update(claim.run_id for claim in ran)
            keys = Counter(claim.params for claim in ran)
            assert all(count == 1 for count in keys.values()), keys
        await asyncio.gather(*(_turn(hand, held[hand], wanted=0) for hand in hands))
    assert set(executed.values()) == {1}
    assert all(gate.in_use == 0 for gate in await client.gates())
    assert await stores[0].check() == []
    for store in stores:
        await store.close()


def _rounds(url: str) -> int:
    return 100 if url.startswith("postgresql") and " " not in url else 10


async def _turn(hand: Hand, leases: list[Any], wanted: int = 8) -> tuple[Any, ...]:
    """Hand these runs in, then ask for others."""
    if leases:
        await hand.turn(*((lease, Completed(b"null")) for lease in leases))
    return (await hand.turn(wanted=wanted)).claims if wanted else ()


async def test_case_025_processes_on_one_file_execute_each_run_once(fleet: Fleet) -> None:
    """8 processes, 200 runs of no policy, with real processes."""
    ids = await fleet.client.submit_many("w", [{"k": "k"}] * 200)
    workers = [fleet.work(places=5, lease_seconds=30) for _ in range(8)]
    await fleet.until(lambda: len(fleet.notes("end")) >= 200, within=60)
    await fleet.ready(*workers)
    assert Counter(note.run_id for note in fleet.notes("start")) == Counter(ids)
    other = await fleet.submit(k="another key")
    await fleet.until(lambda: fleet.ends(other))
    assert fleet.starts(other)[0] <= fleet.submitted[other] + 1


async def test_case_029_a_claim_touches_as_many_rows_behind_10_000_runs_as_behind_10(
    scene: Scene,
) -> None:
    """A claim reads one page ahead in a lane: behind 10 runs part of it, behind 100 and 10 000 the same."""
    served = scene.declare(rate_limit=Rate("k", 1, 2))
    hand = Hand(scene.env.store, served, "hand")
    await hand.register()
    touched = {}
    for queued in (10, 100, 10_000):
        key = f"behind {queued}"
        ids = await scene.client.submit_many("w", [{"k": key}] * queued)
        await scene.client.submit("w", {"k": f"{OTHER} {queued}"})
        with count_rows(scene.env.store) as counted:  # one after the other: which comes first would count
            claims = await hand.turn(wanted=100)
            await scene.client.cancel(ids[-1])
        touched[queued] = counted.rows
        assert sorted(claim.params for claim in claims.claims) == sorted(
            [b'{"k":"%s"}' % key.encode()] * 2 + [b'{"k":"another key %d"}' % queued]
        )
        assert await scene.state(ids[-1]) == "cancelled"
        await hand.turn(*((claim.lease, Completed(b"null")) for claim in claims.claims))
    assert touched[10_000] <= touched[100] + PAGE // 10, touched
    assert touched[10_000] <= touched[10] + PAGE, touched


async def test_case_029_a_cancel_is_quick_while_four_workers_claim_without_a_pause(
    shared_url: str, tmp_path: Path
) -> None:
    """In real time, each worker and the client on a store of its own."""
    registry, work = declared(rate_limit=Rate("k", 1, 2))
    async with open_store(shared_url) as store:
        client = WorkflowClient(store, registry)
        ids = await client.submit_many("w", [{"k": "k", "n": n} for n in range(10_000)])
        stores = [open_store(shared_url) for _ in range(4)]
        hands = [Hand(its, work, f"w{number}") for number, its in enumerate(stores)]
        for hand in hands:
            await hand.register()
        claiming = [asyncio.ensure_future(_claim_for_ever(hand)) for hand in hands]
        try:
            waits = []
            for run_id in ids[-10:]:
                began = time.monotonic()
                assert await client.cancel(run_id)
                waits.append(time.monotonic() - began)
        finally:
            for claimer in claiming:
                claimer.cancel()
            await asyncio.gather(*claiming, return_exceptions=True)
            for its in stores:
                await its.close()
        assert median(waits) < 1
        assert max(waits) < 5  # on a machine that others keep busy


async def _claim_for_ever(hand: Hand) -> None:
    while True:
        await hand.turn(wanted=10)
        await asyncio.sleep(0)
