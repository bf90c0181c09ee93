"""Workers of different workflows that draw on one gate take turns, on every store; a second key goes its own way."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from pyrula.clock import SECOND
from pyrula.store.protocol import Store
from pyrula.testing.clock import VirtualClock
from pyrula.workflows import Limit, Rate, Registry, Worker, WorkflowClient, open_store, workflow
from tests.conformance.hands import LEASE, Hands
from tests.stores import shared_url

__all__ = ["shared_url"]


class Crew:
    """A worker for each workflow, all at one gate, with a backlog under two keys."""

    def __init__(self, store: Store, clock: VirtualClock, workflows: str = "ab") -> None:
        self.clock = clock
        self.hands = {name: Hands(store, clock, f"w-{name}") for name in workflows}
        self.facts: dict[str, bytes] = {}

    async def begin(self, runs: int = 30, **policies: object) -> None:
        for name, hands in self.hands.items():
            hands.declare(name, **policies)
            await hands.register(facts=self.facts.get(name, b"{}"))
            await hands.submit_many(name, [f"{name}{n:02}" for n in range(runs)], k="x")
            await hands.submit_many(name, [f"{name}-{n:02}" for n in range(2)], k="y")
        for name in self.hands:
            await self.look(name)

    async def look(self, name: str) -> list[str]:
        """The runs of the first key that start when this worker looks."""
        return [run_id for run_id in await self.hands[name].turn() if "-" not in run_id]

    async def end(self, run_id: str) -> list[str]:
        """A run ends; what starts of the first key, its worker looking first and then the others."""
        started = await self.hands[run_id[0]].end(run_id)
        for name in self.hands:
            started += await self.look(name)
        return [run_id for run_id in started if "-" not in run_id]

    async def ends(self, times: int) -> str:
        """Time and again the run that executes ends; the workflows of those that start then."""
        (run_id,) = self.executing()
        order = ""
        for _ in range(times):
            (run_id,) = await self.end(run_id)
            order += run_id[0]
        return order

    def executing(self) -> list[str]:
        return [run_id for hands in self.hands.values() for run_id in hands.executing if "-" not in run_id]

    async def wait(self) -> float:
        """Until the alarm of the worker that has nothing to execute."""
        (due,) = {hands.last.next_in for hands in self.hands.values() if hands.last and not hands.executing}
        assert due is not None and 0 < due < SECOND
        for hands in self.hands.values():
            hands.store.heartbeat(hands.incarnation)
        self.clock.move(self.clock.monotonic() + due)
        return due / SECOND


ONE = Limit(key="k", max=1, shared="g")


async def test_two_workers_take_a_shared_slot_in_turn(store: Store, clock: VirtualClock) -> None:
    crew = Crew(store, clock)
    await crew.begin(concurrency=ONE)
    assert (await crew.ends(21))[1:] in ("ab" * 10, "ba" * 10)
    for key in "xy":
        (gate,) = await store.gates("g", key)
        assert gate.in_use == 1


async def test_three_workers_take_a_shared_slot_in_turn(store: Store, clock: VirtualClock) -> None:
    crew = Crew(store, clock, "abc")
    await crew.begin(concurrency=ONE)
    assert set(Counter(await crew.ends(30)).values()) <= {9, 10, 11}


async def test_slots_that_come_free_at_once_are_shared_out(store: Store, clock: VirtualClock) -> None:
    crew = Crew(store, clock)
    await crew.begin(concurrency=Limit(key="k", max=8, shared="g"))
    mine = [run_id for run_id in crew.executing() if run_id[0] == "a"]
    assert len(mine) == 8
    started = [run_id for run_id in await crew.hands["a"].end(*mine) if "-" not in run_id]
    started += await crew.look("b")
    assert Counter(run_id[0] for run_id in started) == {"a": 4, "b": 4}


async def test_the_tokens_of_a_shared_rate_are_taken_in_turn(store: Store, clock: VirtualClock) -> None:
    crew = Crew(store, clock)
    await crew.begin(rate_limit=Rate(key="k", per_second=1, burst=1, shared="r"))
    order = ""
    for _ in range(20):
        await crew.hands["a"].move(1)
        crew.hands["b"].store.heartbeat("w-b")
        started = [run_id for name in "aba" for run_id in await crew.look(name)]  # always the same one first
        order += "".join(run_id[0] for run_id in started)
    assert abs(order.count("a") - order.count("b")) <= 2
    assert len(order) == 20


async def test_a_slot_is_left_for_a_moment_for_a_worker_that_does_not_look(
    store: Store, clock: VirtualClock
) -> None:
    crew = Crew(store, clock)
    await crew.begin(concurrency=ONE)
    hands, pauses = crew.hands["a"], []
    run_id = "a00"
    for _ in range(20):
        started = [each for each in await hands.end(run_id) if "-" not in each]
        while not started:
            pauses.append(hands.last.next_in if hands.last else None)
            assert pauses[-1] == 100_000
            await hands.move(0.1)
            started = await crew.look("a")
        (run_id,) = started
    assert len(pauses) == 1
    assert await crew.end(run_id) != []


@pytest.mark.parametrize(
    "facts", [{"max_concurrent_runs": 2}, {"max_concurrent_runs": 99, "held_back": [{"level": "worker"}]}]
)
async def test_nothing_is_left_for_a_worker_that_is_full_or_held_back(
    store: Store, clock: VirtualClock, facts: dict[str, object]
) -> None:
    crew = Crew(store, clock)
    crew.facts["b"] = msgspec.json.encode(facts)
    crew.hands["b"].declare("other")
    await crew.begin(concurrency=ONE)
    for n in range(2):
        await crew.hands["b"].submit("other", f"-{n}")
    await crew.hands["b"].turn()
    for n in range(10):
        assert [each for each in await crew.hands["a"].end(f"a{n:02}") if "-" not in each] == [f"a{n + 1:02}"]


async def test_nothing_is_left_for_a_worker_that_is_gone(store: Store, clock: VirtualClock) -> None:
    crew = Crew(store, clock)
    await crew.begin(concurrency=ONE)
    await crew.end("a00")
    await store.leave("w-b")
    clock.move(clock.monotonic() + LEASE // 2)
    store.heartbeat("w-a")
    (first,) = crew.executing()
    if first[0] == "b":
        (first,) = await crew.look("a")
    for _ in range(5):
        (first,) = [each for each in await crew.hands["a"].end(first) if "-" not in each]


async def test_a_drain_executes_what_it_left_for_a_worker_that_does_not_come(store_url: str) -> None:
    registry = Registry()

    @workflow(registry=registry, concurrency=Limit(key=None, max=1, shared="g"))
    async def mine(ctx: object) -> None: ...

    async with open_store(store_url) as store:
        other = Hands(store, VirtualClock(), "w-other")
        other.declare("theirs", concurrency=Limit(key=None, max=1, shared="g"))
        await other.register()
        await other.submit_many("theirs", ["first", "second"])
        assert await other.turn() == ["first"]
        client = WorkflowClient(store, registry)
        runs = await client.submit_many("mine", [{}] * 10)
        await other.end("first", wanted=0)
        await Worker(store, [mine]).drain()
        assert {str((await client.get(run_id)).state) for run_id in runs} == {"completed"}


async def test_a_worker_behind_anothers_backlog_finishes_long_before_that_is_done(shared_url: str) -> None:
    """With real workers on two connections, each of one workflow."""
    registry = Registry()
    order: list[str] = []

    @workflow(registry=registry, concurrency=Limit(key=None, max=1, shared="g"))
    async def long(ctx: object) -> None:
        order.append("long")

    @workflow(registry=registry, concurrency=Limit(key=None, max=1, shared="g"))
    async def short(ctx: object) -> None:
        order.append("short")

    async with open_store(shared_url) as ours, open_store(shared_url) as theirs:
        client = WorkflowClient(ours, registry)
        await client.submit_many("long", [{}] * 1000)
        few = await client.submit_many("short", [{}] * 3)
        async with Worker(ours, [long]), Worker(theirs, [short]):
            for run_id in few:
                await client.result(run_id, timeout=60)
        assert order.count("short") == 3
        assert order.count("long") < 1000
        assert await ours.check() == []
