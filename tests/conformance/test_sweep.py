"""What keys have left behind is swept once nobody needs it any more: lanes, units, gates."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest

from pyrula.clock import SECOND
from pyrula.model.outcome import Completed, Outcome, Parked, Postponed, Released, Retry
from pyrula.policies.limit import Limit
from pyrula.policies.rate import Rate
from pyrula.store.open import open_store
from pyrula.store.postgres.connection import PostgresTx
from pyrula.store.protocol import Store
from pyrula.store.shard.sweep import sweep, sweep_floor
from pyrula.store.shard.tx import Tx
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import Hands, event, shards_of, sleep, write

DAY = 86_400
_ENDS = (b"", b"\xff" * 16)
"""Where all lanes are next to: behind the one end, or before the other."""


async def forget(store: Any, before: int | None = None) -> None:
    """Sweep all that was left on the floor, as broom after broom would."""
    due = await store.now() + 1 if before is None else before

    def all_of_it(tx: Tx) -> int:
        for place in _ENDS:
            sweep_floor(tx, due, 1000, place)
        return 0

    await write(store, all_of_it)


async def come_back(hands: Hands, store: Store) -> None:
    """Two runs join a key, of a limit of 1, whose lane was swept when its first run had ended."""
    hands.declare("w", concurrency=Limit(key="k", max=1))
    await hands.register()
    await hands.submit("w", "a0", params={"k": "a"})
    await hands.end(*await hands.turn())
    await forget(store, before=0)
    await hands.submit_many("w", ["a1", "a2"], k="a")


async def left(store: Any) -> dict[str, int]:
    """Rows of what keys leave behind."""
    return {table: await write(store, lambda tx, table=table: _count(tx, table)) for table in _LEFT}


_LEFT = {
    "lanes": "SELECT count(*) FROM lanes",
    "units": "SELECT count(*) FROM units WHERE workflow <> ''",
    "gates": "SELECT count(*) FROM gates",
    "unused": "SELECT count(*) FROM unused",
}


def _count(tx: Any, table: str) -> int:
    found = (
        tx.script(_LEFT[table]) if isinstance(tx, PostgresTx) else tx._cursor.execute(_LEFT[table]).fetchall()
    )
    return int(found[0][0])


async def gates(hands: Hands) -> dict[str, str]:
    """Names of the gates there are, by key."""
    return {gate.key: gate.name for gate in await hands.store.gates(None)}


async def test_lanes_that_stand_empty_go_and_come_back(hands: Hands, store: Store) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=1, hold="run"))
    await hands.register()
    for n in range(50):
        await hands.submit("w", f"r{n}", params={"k": f"k{n}"})
    await hands.turn()
    await hands.end(*[f"r{n}" for n in range(40)])
    await hands.park("r40", event(0, "go"))
    for _ in range(10):
        await hands.move(1)
        await write(store, lambda tx: sweep(tx, 0, 1000).runs)
    empty = [
        await shard.read(lambda tx: tx.rows("sweep.empty_lanes", b"", 1000)) for shard in shards_of(store)
    ]
    assert sum(map(len, empty)) < 50
    await hands.store.send_event("r40", "go", b"1")
    await hands.submit("w", "again", params={"k": "k1"})
    await hands.submit("w", "behind", params={"k": "k40"})
    assert set(await hands.turn()) == {"r40", "again"}


NOTHING = {"lanes": 0, "units": 0, "gates": 0, "unused": 0}


async def test_keys_that_come_and_go_leave_nothing_behind(hands: Hands, store: Store) -> None:
    hands.declare("w", concurrency=[Limit(key="k", max=1), Limit(key="k", max=1, name="held", hold="run")])
    await hands.register()
    ids = [f"r{n}" for n in range(60)]
    await store.submit([hands.submission("w", id, params={"k": f"k{int(id[1:]) // 2}"}) for id in ids])
    while started := await hands.turn() or list(hands.executing):
        await hands.end(*started, wanted=0)
    assert (await left(store))["gates"] >= 60
    await forget(store, before=0)
    rows = await left(store)
    assert rows == {"lanes": 0, "units": 30, "gates": 60, "unused": 90}
    await forget(store)
    assert await left(store) == NOTHING
    assert await gates(hands) == {}


async def test_turns_forget_a_key_a_retention_after_its_last_run(hands: Hands, store: Store) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=1))
    await hands.register()
    await hands.submit("w", "a", params={"k": "a"})
    await hands.end(*await hands.turn())
    hours = 0
    while "a" in await gates(hands):
        hours += 8
        assert hours < 60 * 24
        await hands.move(8 * 3600)
        await hands.register()
        await store.submit([hands.submission("w", params={"k": f"{hours}-{n}"}) for n in range(6)])
        await hands.end(*await hands.turn())  # brooms look for empty lanes at a place that changes
    assert hours > 7 * 24


async def test_a_rate_gate_stays_until_the_slowest_rate_would_have_paid(hands: Hands, store: Store) -> None:
    hands.declare("w", rate_limit=Rate(key="k", per_second=1, burst=2))
    await hands.register()
    await hands.submit("w", "a", params={"k": "a"})
    await hands.end(*await hands.turn())
    await hands.move(1_000_000 - 1)
    await forget(store)
    assert await gates(hands) == {"a": "w.rate"}
    await hands.move(1)
    await forget(store)
    assert await left(store) == NOTHING


async def test_a_gate_that_is_used_stays(hands: Hands, store: Store) -> None:
    hands.declare("limited", concurrency=Limit(key="k", max=1, name="g"))
    hands.declare("rated", rate_limit=Rate(key="k", per_second=1e-3, burst=2, name="g"))
    hands.declare("plain", concurrency=Limit(key=None, max=1, name="one"))
    await hands.register()
    await hands.submit_many("limited", ["idle"], k="idle")
    await hands.submit_many("limited", ["executing"], k="executing")
    await hands.submit_many("limited", ["ahead", "waiting"], k="waiting")
    await hands.submit_many("limited", ["overridden"], k="overridden")
    await hands.submit_many("limited", ["paused"], k="paused")
    await hands.submit_many("rated", ["owes"], k="owes")
    await hands.submit_many("rated", ["closed", "too"], k="closed")
    await hands.submit("plain", "plain")
    await hands.turn()
    await hands.end("idle", "overridden", "paused", "owes", "plain")
    await store.override("g", "overridden", 3, None)
    await store.pause("g", "paused", None)
    for run_id, seconds in ("closed", 10), ("too", 3 * 365 * DAY):
        await hands.end(run_id, outcome=Postponed(seconds * SECOND))
        assert await hands.state(run_id) == "queued"
        await store.cancel([run_id])
        await hands.turn()
    await hands.move(11)
    await hands.turn()  # the time to wake those that were closed out first has come
    await forget(store)
    stay = {"executing", "waiting", "overridden", "paused", "owes", "closed", ""}
    assert set(await gates(hands)) == stay
    assert await hands.end("ahead") == ["waiting"]
    await hands.end("waiting", "executing")
    await store.override("g", "overridden", None, None)
    await store.resume("g", "paused")
    await hands.move(700 * DAY)
    await hands.register()
    await hands.turn()
    await forget(store)
    assert set(await gates(hands)) == {"closed", ""}
    await hands.move(700 * DAY)
    await forget(store)
    assert set(await gates(hands)) == {""}


async def test_a_limit_is_exact_in_the_turn_that_would_sweep_its_gate(hands: Hands, store: Store) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=1))
    await hands.register()
    await hands.submit("w", "gone", params={"k": "a"})
    await hands.submit("w", "long", params={"k": "b"})
    await hands.turn()
    await hands.end("gone")
    await forget(store, before=0)  # lanes are gone, and "long" executes without one
    await hands.move(8 * DAY)
    await hands.register()
    await hands.submit_many("w", ["a0", "a1"], k="a")
    await hands.submit_many("w", ["b0", "b1"], k="b")
    assert await hands.turn() == ["a0"]
    assert await hands.end("long") == ["b0"]
    assert await hands.end("a0", "b0") == ["a1", "b1"]
    assert {gate.key: gate.in_use for gate in await store.gates(None)} == {"a": 1, "b": 1}


async def test_a_slot_given_back_in_the_turn_that_sweeps_is_counted_once(hands: Hands, store: Store) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=1))
    await hands.register()
    await hands.submit("w", "long", params={"k": "a"})
    await hands.turn()
    await forget(store, before=0)
    await hands.move(8 * DAY)
    await hands.register()
    await hands.submit_many("w", ["a0", "a1"], k="a")
    assert await hands.end("long") == ["a0"]  # its gate is due in this very turn
    assert [gate.in_use for gate in await store.gates(None)] == [1]


async def test_a_gate_stays_whose_lane_waits_for_a_worker_with_room(hands: Hands, store: Store) -> None:
    await come_back(hands, store)
    assert await hands.turn(wanted=0) == []
    await forget(store)
    assert await hands.turn() == ["a1"]
    assert [gate.in_use for gate in await store.gates(None)] == [1]


async def test_a_run_closes_its_gate_though_it_was_swept_meanwhile(hands: Hands, store: Store) -> None:
    hands.declare("w", rate_limit=Rate(key="k", per_second=1, burst=5))
    await hands.register()
    await hands.submit("w", "a0", params={"k": "a"})
    await hands.turn()
    await hands.move(20 * DAY)
    await hands.register()
    await forget(store)
    assert await left(store) == NOTHING
    assert await hands.end("a0", outcome=Postponed(10 * SECOND)) == []
    await hands.submit("w", "a1", params={"k": "a"})
    await hands.submit("w", "b0", params={"k": "b"})
    await hands.run_until(9)
    assert hands.started[1:] == [(20 * DAY, "b0")]
    await hands.run_until(1)
    assert sorted(hands.starts("a0", "a1")[1:]) == [20 * DAY + 10] * 2


async def test_a_gate_that_was_swept_is_steered_by_its_name(hands: Hands, store: Store) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=1, name="both"))
    hands.declare("rated", rate_limit=Rate(key="k", per_second=1, burst=1, name="both"))
    await hands.register()
    await hands.submit("w", "a0", params={"k": "a"})
    await hands.submit("rated", "b0", params={"k": "b"})
    await hands.turn()
    await hands.end("a0", "b0")
    await forget(store)
    assert [gate.kind for gate in await store.gates("both")] == ["rate"]
    await store.override("both", "a", 2, None)
    await hands.submit_many("w", ["a1", "a2", "a3"], k="a")
    assert await hands.turn() == ["a1", "a2"]


async def test_a_unit_that_has_started_runs_since_is_kept(hands: Hands, store: Store) -> None:
    await come_back(hands, store)
    await hands.turn()
    await write(
        store, lambda tx: sweep(tx, tx.now + 1).runs
    )  # the lane that waits now is no reason to forget
    assert {name: n for name, n in (await left(store)).items() if n} == {"lanes": 1, "units": 1, "gates": 1}


class Keyed:
    """A history of runs of few keys. What starts when hangs on their gates alone."""

    def __init__(self, seed: int, retention: timedelta) -> None:
        self.chance = Random(seed)
        self.clock = VirtualClock()
        self.store = open_store("sqlite://", clock=self.clock, retention=retention)
        self.hands = Hands(self.store, self.clock)
        self.hands.declare("limited", concurrency=Limit(key="k", max=2, name="limit"))
        self.hands.declare("rated", rate_limit=Rate(key="k", per_second=0.1, burst=2, name="rate"))
        both = Limit(key="k", max=1, name="both", hold="run")
        self.hands.declare("both", concurrency=both, rate_limit=Rate(key="k", per_second=0.5, name="pace"))
        self.numbers: dict[str, int] = {}

    async def step(self, number: int) -> None:
        what, chance, hands = self.chance.random(), self.chance, self.hands
        if what < 0.4:
            params = {"k": chance.choice("abc")}
            name = chance.choice(["limited", "rated", "both"])
            await hands.submit(name, f"r{number}", params=params, priority=chance.choice([1, 3]))
            await hands.turn()
        elif what < 0.75:
            if hands.executing:
                await self.end(chance.choice(sorted(hands.executing)))
        elif what < 0.95:
            await hands.move(chance.choice([0.5, 3, 20, 20 * DAY]))
            await hands.register()
            await hands.turn()
        else:
            gate, key = chance.choice(["limit", "rate", "both"]), chance.choice([None, *"abc"])
            if chance.random() < 0.5:
                await self.store.pause(gate, key, 30 * SECOND)
            else:
                await self.store.resume(gate, key)
            await hands.turn()

    async def end(self, run_id: str) -> None:
        now = await self.store.now()
        self.numbers[run_id] = number = self.numbers.get(run_id, -1) + 1
        outcomes: list[Outcome] = [
            Completed(b"1"), Completed(b"1"), Retry(b'{"type":"E","message":"no"}', SECOND), Released(),
            Parked((sleep(number, now + 10 * SECOND),)), Postponed(40 * SECOND),
        ]  # fmt: skip
        await self.hands.end(run_id, outcome=self.chance.choice(outcomes))


async def starts(seed: int, *, swept: bool) -> list[tuple[float, str]]:
    """When which run of a history starts. swept: after each step all is forgotten that may be, and else nothing."""
    history = Keyed(seed, timedelta(days=36_000))
    await history.hands.register()
    for number in range(150):
        await history.step(number)
        if swept:
            await forget(history.store)
            assert await history.store.check() == []
    await history.store.close()
    return sorted(history.hands.started)


@pytest.mark.parametrize("seed", range(8))
async def test_what_is_swept_changes_no_decision(seed: int) -> None:
    assert await starts(seed, swept=True) == await starts(seed, swept=False)
