"""Ids that people choose are unique in the whole store, wherever their runs are."""

from __future__ import annotations

import asyncio

import pytest

from pyrula.policies import Limit
from pyrula.store.protocol import Submitted
from pyrula.store.shard.sweep import sweep
from pyrula.store.sharded.store import ShardedStore
from tests.conformance.hands import Hands, write
from tests.sharded.places import SHARDS, how_many, id_of, key_on, shard_of

EVERYWHERE = [(owner, shard) for owner in range(SHARDS) for shard in range(SHARDS)]


@pytest.fixture
async def hands(hands: Hands) -> Hands:
    hands.declare("w", concurrency=Limit("k", max=1))
    hands.declare("free")
    await hands.register()
    return hands


@pytest.mark.parametrize(("owner", "shard"), EVERYWHERE)
async def test_an_id_given_twice_is_one_run(
    hands: Hands, store: ShardedStore, owner: int, shard: int
) -> None:
    run_id = id_of(owner)
    run = hands.submission("w", run_id, params={"k": key_on(shard)})
    assert await store.submit([run]) == [Submitted(run_id, created=True)]
    assert await store.submit([run]) == [Submitted(run_id, created=False)]
    assert await shard_of(store, run_id) == shard
    assert await how_many(store, run_id) == 1
    assert await hands.turn() == [run_id]
    assert (await store.submit([run, run]))[0].conflict is False


@pytest.mark.parametrize(("owner", "shard"), EVERYWHERE)
async def test_an_id_with_params_that_lead_elsewhere_is_a_conflict(
    hands: Hands, store: ShardedStore, owner: int, shard: int
) -> None:
    run_id = id_of(owner)
    await hands.submit("w", run_id, params={"k": key_on(shard)})
    for other in range(SHARDS):
        params = {"k": key_on(other), "more": 1}
        assert await store.submit([hands.submission("w", run_id, params=params)]) == [
            Submitted(run_id, created=False, conflict=True)
        ]
    assert await store.submit([hands.submission("free", run_id)]) == [
        Submitted(run_id, created=False, conflict=True)
    ]
    assert await how_many(store, run_id) == 1
    found = await store.get(run_id)
    assert found is not None and found.params == {"k": key_on(shard)}


async def test_of_several_submits_of_one_id_at_once_one_wins(hands: Hands, store: ShardedStore) -> None:
    for owner in range(SHARDS):
        run_id = id_of(owner)
        many = [hands.submission("w", run_id, params={"k": key_on(n % SHARDS), "n": n}) for n in range(9)]
        answers = await asyncio.gather(*(store.submit([each]) for each in many))
        assert sum(answer.created for (answer,) in answers) == 1
        assert sum(answer.conflict for (answer,) in answers) == 8
        assert await how_many(store, run_id) == 1


async def test_runs_of_one_key_start_as_submitted_whatever_their_ids(
    hands: Hands, store: ShardedStore
) -> None:
    runs = [id_of(n % SHARDS, "r", n) for n in range(12)]
    await hands.submit_many("w", runs[:9], k=key_on(1))
    for run_id in runs[9:]:
        await hands.submit("w", run_id, params={"k": key_on(1)})
    started = await hands.turn()
    while len(started) < len(runs):
        started += await hands.end(started[-1])
    assert started == runs


@pytest.mark.parametrize(("owner", "shard"), EVERYWHERE)
async def test_an_id_may_be_chosen_again_once_its_run_is_not_kept(
    hands: Hands, store: ShardedStore, owner: int, shard: int
) -> None:
    run_id, other = id_of(owner), (shard + 1) % SHARDS
    await hands.submit("w", run_id, params={"k": key_on(shard)})
    await hands.turn()
    await hands.end(run_id)
    await hands.move(1)
    now = await store.now()
    assert await write(store, lambda tx: sweep(tx, now).runs) == 1
    await hands.turn()  # brings the farewell
    await hands.submit("w", run_id, params={"k": key_on(other)})
    assert await shard_of(store, run_id) == other
    assert await store.shard(owner).read(lambda tx: tx.rows("chosen.of", run_id)) == (
        [] if owner == other else [(other, 1)]
    )


async def test_an_old_farewell_does_not_forget_a_run_that_came_again(
    hands: Hands, store: ShardedStore
) -> None:
    """The run is swept, and its id chosen anew for the same shard before the farewell has arrived."""
    run_id = id_of(0)
    run = hands.submission("w", run_id, params={"k": key_on(1)})
    await store.submit([run])
    await hands.turn()
    await hands.end(run_id)
    await hands.move(1)
    now = await store.now()
    assert await write(store, lambda tx: sweep(tx, now).runs) == 1
    await store.submit([run])
    await hands.turn()
    assert await shard_of(store, run_id) == 1
    assert await store.submit([hands.submission("w", run_id, params={"k": key_on(2)})]) == [
        Submitted(run_id, created=False, conflict=True)
    ]


async def test_runs_are_found_by_any_id(hands: Hands, store: ShardedStore) -> None:
    runs = [await hands.submit("w", params={"k": key_on(shard)}) for shard in range(SHARDS)]
    runs += [await hands.submit("w", id_of(n % SHARDS, "z", n), params={"k": key_on(1)}) for n in range(4)]
    runs += [await hands.submit("free", id_of(n, "y")) for n in range(SHARDS)]
    for run_id in runs:
        found = await store.get(run_id)
        assert found is not None and found.run_id == run_id
    assert await store.results([*runs, "nobody"]) == [("open", None)] * len(runs) + [None]
    assert await store.get("nobody") is None
    assert await store.why("nobody") is None
    assert await store.cancel([*runs, "nobody"]) == ["queued"] * len(runs) + [""]
    assert not await store.send_event("nobody", "go", b"1")
