"""A shard that is gone, or slow, stops none of the others; what is on it waits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest

from pyrula.clock import SECOND
from pyrula.errors import ShardMismatch, StoreUnavailable
from pyrula.ids import shard_of as carried
from pyrula.model.outcome import Completed
from pyrula.policies import Limit
from pyrula.store.open import open_store
from pyrula.store.protocol import TurnRequest
from pyrula.store.sharded.beats import judge
from pyrula.store.sharded.seat import Seat, share
from pyrula.store.sharded.store import ShardedStore
from pyrula.testing.environment import Environment
from pyrula.workflows.workflow import Registry, workflow
from tests.conformance.hands import LEASE, Hands
from tests.sharded.faults import off
from tests.sharded.places import SHARDS, id_of, key_on


@pytest.fixture
async def hands(hands: Hands) -> Hands:
    hands.declare("w", concurrency=Limit("k", max=2, name="g"))
    hands.declare("free")
    await hands.register()
    return hands


async def one_on_each(hands: Hands) -> list[str]:
    return [await hands.submit("w", params={"k": key_on(shard)}) for shard in range(SHARDS)]


async def pass_time(hands: Hands, seconds: float, store: ShardedStore) -> list[Any]:
    """Let time pass with heartbeats and turns; the signals that came."""
    signals = []
    for _ in range(round(seconds)):
        hands.clock.move(hands.clock.monotonic() + SECOND)
        store.heartbeat("w1")
        await hands.turn()
        assert hands.last is not None
        signals += hands.last.signals
    return signals


async def test_a_shard_that_is_gone_does_not_stop_the_others(hands: Hands, store: ShardedStore) -> None:
    before = await one_on_each(hands)
    with off(store, 1):
        assert set(await hands.turn()) == {before[0], before[2]}
        assert await hands.end(before[0]) == []
        with pytest.raises(StoreUnavailable):
            await hands.submit("w", params={"k": key_on(1)})
        more = await hands.submit("w", params={"k": key_on(0)})
        assert await hands.turn() == [more]
    await hands.move(10)
    assert await hands.turn() == [before[1]]


async def test_an_outcome_for_a_shard_that_is_gone_is_handed_in_when_it_is_back(
    hands: Hands, store: ShardedStore
) -> None:
    before = await one_on_each(hands)
    await hands.turn()
    with off(store, 1):
        await hands.end(*before)
        assert [await hands.state(before[shard]) for shard in (0, 2)] == ["completed"] * 2
        await pass_time(hands, 5, store)
    await pass_time(hands, 6, store)
    assert await hands.state(before[1]) == "completed"


async def test_leases_on_other_shards_outlive_one_that_is_gone(hands: Hands, store: ShardedStore) -> None:
    before = await one_on_each(hands)
    await hands.turn()
    leases = {run_id: claim.lease for run_id, claim in hands.executing.items()}
    with off(store, 1):
        signals: list[Any] = []
        for second in range(2 * LEASE // SECOND):
            signals += await pass_time(hands, 1, store)
            if signals and before[1] in hands.executing:
                assert second * SECOND < LEASE * 3 // 4
                assert [(signal.lease, signal.cancel) for signal in signals] == [(leases[before[1]], True)]
                # its body stops, and what it ended with is no outcome
                await hands.end(before[1], outcome=Completed(b"late"))
                signals = []
        assert before[1] not in hands.executing
        assert signals == []
    back = [await hands.state(run_id) for run_id in before]
    assert back == ["executing", "executing", "executing"]  # nobody could look at the one in the middle
    await pass_time(hands, 10, store)
    assert before[1] in hands.executing  # handed out anew
    assert hands.executing[before[1]].lease != leases[before[1]]
    await hands.end(*before)
    assert [await hands.state(run_id) for run_id in before] == ["completed"] * 3


async def test_a_worker_whose_bodies_do_not_stop_in_time_is_given_up(
    hands: Hands, store: ShardedStore
) -> None:
    await one_on_each(hands)
    await hands.turn()
    with off(store, 1):
        alive = True
        for second in range(LEASE // SECOND):
            hands.clock.move(hands.clock.monotonic() + SECOND)
            alive = store.heartbeat("w1")
            if not alive:
                assert LEASE // 2 < (second + 1) * SECOND < LEASE
                break
            await hands.turn()
    assert not alive


async def test_when_all_shards_are_gone_a_turn_and_a_beat_say_so(hands: Hands, store: ShardedStore) -> None:
    (run, *_) = await one_on_each(hands)
    await hands.turn()
    outcome = ((hands.executing[run].lease, Completed(b"1")),)
    with off(store, 0), off(store, 1), off(store, 2):
        with pytest.raises(StoreUnavailable, match="shard 0"):
            await store.turn(TurnRequest(incarnation="w1", outcomes=outcome, wanted=1))
        with pytest.raises(StoreUnavailable):
            store.heartbeat("w1")
        with pytest.raises(StoreUnavailable):
            await store.runs(None, None, None, 9, None)
    await hands.move(10)
    await hands.end(run)  # the caller has kept it
    assert await hands.state(run) == "completed"


async def test_a_worker_that_begins_while_a_shard_is_gone_takes_it_up_later(
    hands: Hands, store: ShardedStore
) -> None:
    before = await one_on_each(hands)
    await store.leave("w1")
    with off(store, 1):
        await hands.register()
        assert set(await hands.turn()) == {before[0], before[2]}
        (worker,) = await store.workers()
        assert "refused" in worker["unreached"][1]
    await hands.move(10)
    assert await hands.turn() == [before[1]]
    (worker,) = await store.workers()
    assert worker["unreached"] == {} and worker["executing"] == 3


async def test_what_is_known_elsewhere_is_told_though_a_shard_is_gone(
    hands: Hands, store: ShardedStore
) -> None:
    before = await one_on_each(hands)
    with off(store, 1):
        found, _ = await store.runs(None, None, None, 9, None)
        assert {run.run_id for run in found} == {before[0], before[2]}
        assert await store.results([before[0], before[1]]) == [("open", None)] * 2
        with pytest.raises(StoreUnavailable):
            await store.results([before[1]])
        with pytest.raises(StoreUnavailable):
            await store.get(before[1])
        assert any("shard 1 could not be looked at" in line for line in await store.check())
        assert len(await store.gates("g")) == 2
        with pytest.raises(StoreUnavailable):
            await store.override("g", None, 1, None)
    await store.override("g", None, 1, None)


async def test_a_message_to_a_shard_that_is_gone_arrives_when_it_is_back(
    hands: Hands, store: ShardedStore
) -> None:
    run_id = id_of(0)
    with off(store, 1), pytest.raises(StoreUnavailable):
        await hands.submit("w", run_id, params={"k": key_on(1)})
    await pass_time(hands, 12, store)
    assert await hands.state(run_id) == "executing"


async def test_what_is_new_waits_for_all_shards_and_what_was_there_does_not(
    hands: Hands, store: ShardedStore
) -> None:
    with off(store, 1):
        hands.declare("new", concurrency=Limit("k", max=1))
        await hands.register()
        with pytest.raises(StoreUnavailable):
            await hands.submit("new", params={"k": key_on(0)})
        await hands.submit("w", params={"k": key_on(0)})
    await hands.submit("new", params={"k": key_on(0)})


async def test_runs_without_gates_are_put_where_they_can_be(hands: Hands, store: ShardedStore) -> None:
    with off(store, 1):
        with pytest.raises(StoreUnavailable):
            await hands.submit("w", params={"k": key_on(1)})
        runs = [await hands.submit("free") for _ in range(9)]
    assert {carried(run) for run in runs} == {0, 2}


async def test_a_shard_that_is_locked_for_long_holds_up_its_own_runs_only(tmp_path: Path) -> None:
    """By another process, in real time: its turn is not waited for, and what it hands out late is executed."""
    urls = [f"sqlite:///{tmp_path / f'{number}.db'}" for number in range(SHARDS)]
    registry, ended = Registry(), asyncio.Queue[str]()

    @workflow(name="w", concurrency=Limit("k", max=2), registry=registry)
    async def w(ctx: Any, k: str) -> None:
        ended.put_nowait(k)

    from pyrula.workflows import WorkflowClient
    from pyrula.workflows.worker import Worker

    async with open_store(urls) as store:
        client = WorkflowClient(store, registry)
        runs = [await client.submit("w", {"k": key_on(shard)}) for shard in range(SHARDS)]
        locker = apsw.Connection(str(tmp_path / "1.db"))
        locker.execute("BEGIN IMMEDIATE")
        async with Worker(store, registry, lease_seconds=5):
            try:
                first = {await asyncio.wait_for(ended.get(), 5) for _ in range(2)}
                assert first == {key_on(0), key_on(2)}
                assert await client.result(runs[0], timeout=5) is None
                assert ended.empty()
            finally:
                locker.execute("ROLLBACK")
            assert await asyncio.wait_for(ended.get(), 10) == key_on(1)
            assert await client.result(runs[1], timeout=5) is None


async def test_a_message_that_cannot_arrive_holds_up_one_turn_and_not_all(
    hands: Hands, store: ShardedStore
) -> None:
    """The shard that it is for answers nothing at all, as one that another process keeps locked."""
    before = await one_on_each(hands)
    child = await hands.submit("w", f"{before[1]}/:0", params={"k": key_on(0)}, parent=before[1])
    await hands.turn()
    there, back = store.shard(1), asyncio.Event()
    write, turn = there.write, there.turn

    async def wait_and_write(verb: Any) -> Any:
        await back.wait()
        return await write(verb)

    async def wait_and_turn(request: TurnRequest) -> Any:
        await back.wait()
        return await turn(request)

    there.write, there.turn = wait_and_write, wait_and_turn  # type: ignore[method-assign]  # while it is locked
    try:
        loop, took = asyncio.get_running_loop(), []
        await hands.end(child)
        for number in range(4):
            began = loop.time()
            run_id = await hands.submit("w", params={"k": key_on(2, 1 + number)})
            assert await hands.turn() == [run_id]
            took.append(loop.time() - began)
        assert sum(took) < 1, took
    finally:
        del there.write, there.turn
        back.set()
    await hands.move(10)
    await hands.turn()


async def test_what_a_shard_hands_out_once_it_was_let_go_is_not_begun(
    hands: Hands, store: ShardedStore
) -> None:
    """Its answer comes so late that the worker has already told its bodies there to stop."""
    before = await one_on_each(hands)
    there, back = store.shard(1), asyncio.Event()
    turn = there.turn

    async def answer_late(request: TurnRequest) -> Any:
        handed = await turn(request)
        await back.wait()
        return handed

    there.turn = answer_late  # type: ignore[method-assign]  # for as long as it is slow
    assert set(await hands.turn()) == {before[0], before[2]}
    del there.turn
    with off(store, 1):
        await pass_time(hands, LEASE // SECOND - 8, store)
        back.set()
        await pass_time(hands, 2, store)
    assert before[1] not in hands.executing
    await pass_time(hands, 10, store)
    assert before[1] in hands.executing
    await hands.end(before[1])
    assert await hands.state(before[1]) == "completed"


async def test_a_shard_that_cannot_be_opened_leaves_the_others_open(tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path / f'{number}.db'}" for number in range(SHARDS)]
    async with open_store(urls):
        pass
    for file in tmp_path.glob("1.db*"):  # noqa: ASYNC240 - a file or two
        file.unlink()
    (tmp_path / "1.db").mkdir()
    async with open_store(urls) as store:
        with pytest.raises(StoreUnavailable, match=r"1\.db"):
            await store.shard(1).connect()  # type: ignore[attr-defined]  # of a ShardedStore
        assert await store.now() > 0
    (tmp_path / "1.db").rmdir()
    with pytest.raises(ShardMismatch):
        async with open_store(urls):
            pass


async def test_bodies_of_a_shard_that_is_gone_are_stopped_and_run_again() -> None:
    """By a real worker, in virtual time."""
    registry, starts, stops = Registry(), [], []

    @workflow(name="w", concurrency=Limit("k", max=2), registry=registry)
    async def w(ctx: Any, k: str) -> str:
        starts.append((round(env.now), k))
        try:
            await env.sleep(60)
        except asyncio.CancelledError:
            stops.append((round(env.now), k))
            raise
        return k

    async with Environment(["sqlite://"] * SHARDS, registry, lease_seconds=20) as env:
        sharded: Any = env.store._store  # type: ignore[attr-defined]  # Environment counts the calls of its store
        runs = [await env.client.submit("w", {"k": key_on(shard)}) for shard in range(SHARDS)]
        await env.advance(1)
        assert len(starts) == SHARDS
        with off(sharded, 1):
            for _ in range(20):  # a beat at each step
                await env.advance(1)
        (stopped,) = stops
        assert stopped[1] == key_on(1) and 10 <= stopped[0] <= 15
        results = [await env.until(env.client.result(run)) for run in runs]
        assert results == [key_on(shard) for shard in range(SHARDS)]
        assert len(starts) == SHARDS + 1
        assert starts[-1][1] == key_on(1) and starts[-1][0] >= 20


def test_room_is_shared_evenly_and_what_is_left_over_goes_around() -> None:
    seats = [Seat(shard) for shard in range(3)]
    assert share(9, seats, 0) == {0: 3, 1: 3, 2: 3}
    assert [share(1, seats, turn) for turn in range(3)] == [
        {0: 1, 1: 0, 2: 0},
        {1: 1, 2: 0, 0: 0},
        {2: 1, 0: 0, 1: 0},
    ]
    assert share(5, [], 0) == {}


@pytest.mark.parametrize(
    ("age", "held", "verdict"),
    [
        (10, True, "keep"),
        (15, True, "let go"),
        (15, False, "let go"),
        (23, True, "give up"),
        (23, False, "let go"),
    ],
)
def test_a_seat_that_is_not_renewed_is_let_go_before_its_lease_is_over(
    age: int, held: bool, verdict: str
) -> None:
    assert judge(age, 0, 30, held=held) == verdict
