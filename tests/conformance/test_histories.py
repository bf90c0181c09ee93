"""Random histories of all that can happen to runs with held slots, shared gates, rates and families.
PYRULA_TEST_HISTORIES=600 for more.

After each step the audit finds nothing and no gate is over its limit; at the end all of them finish.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from typing import Any

import msgspec
import pytest

from pyrula.clock import SECOND
from pyrula.model.outcome import Cancelled, Completed, Failed, Outcome, Parked, Postponed, Released, Retry
from pyrula.model.step import Entry
from pyrula.policies.limit import Limit
from pyrula.policies.rate import Rate
from pyrula.policies.stamp import Stamped
from pyrula.store.open import open_store
from pyrula.store.protocol import Store
from pyrula.store.shard.sweep import sweep_floor
from pyrula.store.sharded.store import ShardedStore
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import Hands, child, event, sleep

HISTORIES = int(os.environ.get("PYRULA_TEST_HISTORIES", "40"))
ERROR = b'{"type":"E","message":"no"}'
MOST = {"plain.limit": 2, "shared": 2, "held": 1}


def declare(hands: Hands, most: int = 2) -> None:
    shared = Limit(key="k", max=2, shared="shared")
    held = Limit(key="k", max=1, shared="held", hold="run")
    hands.declare("plain", concurrency=Limit(key="k", max=most))
    if not isinstance(hands.store, ShardedStore):
        hands.declare("both", concurrency=[shared, held])
    hands.declare("rated", concurrency=shared, rate_limit=Rate(key="k", per_second=0.5, burst=2))
    hands.declare("keeps", concurrency=held)
    hands.declare("free")


class History:
    """One store, one worker that sometimes vanishes, and chance."""

    def __init__(self, seed: int, store: Any, clock: VirtualClock) -> None:
        self.chance = random.Random(seed)
        self.store, self.clock = store, clock
        self.hands = Hands(store, clock)
        # Runs of two shared gates would need both on one shard.
        self.names = ["plain", "rated", "keeps", "free"] + ["both"] * (not isinstance(store, ShardedStore))
        self.ids: list[str] = []
        self.entries: dict[str, int] = {}
        self.children: defaultdict[str, list[str]] = defaultdict(list)

    async def submit(self) -> None:
        name = self.chance.choice([*self.names, "keeps"])
        parent = (
            self.chance.choice(list(self.hands.executing)) if self.hands.executing and self.coin() else None
        )
        run_id = f"r{len(self.ids)}"
        self.ids.append(run_id)
        more = {"delay": 3} if self.coin(0.1) else {"expires_in": 4} if self.coin(0.1) else {}
        params = {"k": self.chance.choice("ab")}
        priority = self.chance.choice([None, None, 1, 5])
        await self.hands.submit(name, run_id, params=params, parent=parent, priority=priority, **more)
        if parent is not None:
            self.children[parent].append(run_id)
            if self.coin(0.5):
                await self.hand_in(parent, await self.parks(parent))

    def coin(self, p: float = 0.5) -> bool:
        return self.chance.random() < p

    def number(self, run_id: str) -> int:
        self.entries[run_id] = self.entries.get(run_id, -1) + 1
        return self.entries[run_id]

    async def parks(self, run_id: str) -> Parked:
        """It waits for one thing, or for several at once; one that knows of more waits may park again for those, though
        they may be settled, if nobody has told it so."""
        claim = self.hands.executing[run_id]
        waits = claim.lease not in self.hands.told and any(entry.status == "waiting" for entry in claim.log)
        if waits and self.coin(0.7):
            return Parked(())
        now = await self.store.now()
        return Parked(tuple(self.wait(run_id, now) for _ in range(self.chance.choice([1, 1, 2, 3]))))

    def wait(self, run_id: str, now: int) -> Entry:
        number = self.number(run_id)
        if self.children[run_id] and self.coin(0.7):
            return child(number, self.chance.choice(self.children[run_id]))
        due = now + self.chance.choice([SECOND, 3 * SECOND])
        return self.chance.choice([sleep(number, due), event(number, "go", due)])

    async def hand_in(self, run_id: str, outcome: Outcome) -> None:
        await self.hands.end(run_id, outcome=outcome, wanted=self.chance.choice([0, 1, 5]))

    async def end(self) -> None:
        """Some of those that execute end, or stop for a while, in one turn."""
        if not self.hands.executing:
            await self.hands.turn(self.chance.choice([1, 5]))
            return
        executing = list(self.hands.executing)
        some = self.chance.sample(executing, min(len(executing), self.chance.choice([1, 1, 2, 4])))
        outcomes = [await self.outcome(run_id) for run_id in some]
        leases = [self.hands.executing.pop(run_id).lease for run_id in some]
        await self.hands.turn(self.chance.choice([0, 1, 5]), list(zip(leases, outcomes, strict=True)))

    async def outcome(self, run_id: str) -> Outcome:
        if self.coin(0.4):
            return await self.parks(run_id)
        return self.chance.choice(
            [
                Completed(b"1"),
                Completed(b"2"),
                Failed(ERROR),
                Cancelled(),
                Retry(ERROR, SECOND),
                Released(),
                Postponed(SECOND),
            ]
        )

    async def steer(self) -> None:
        gate = self.chance.choice(list(MOST))
        key = self.chance.choice([None, "a"])
        what = self.chance.randrange(4)
        if what == 0:
            await self.store.override(gate, key, 1, 2 * SECOND)
        elif what == 1:
            await self.store.pause(gate, key, 2 * SECOND)
        elif what == 2:
            await self.store.resume(gate, key)
        else:
            declare(self.hands, self.chance.choice([1, 2]))
            await self.store.restamp("plain", self.stamp)

    def stamp(self, params: bytes, priority: int) -> Stamped:
        return self.hands.stamped("plain", msgspec.json.decode(params), priority)

    async def meddle(self) -> None:
        run_id = self.chance.choice(self.ids)
        what = self.chance.randrange(3)
        if what == 0:
            await self.store.cancel([run_id])
        elif what == 1:
            await self.store.retry([run_id])
        else:
            await self.store.send_event(run_id, "go", b"1")

    async def lapse(self) -> None:
        """The worker is gone; another life of it begins."""
        if self.coin():
            await self.store.leave(self.hands.incarnation)
        else:
            self.clock.move(self.clock.monotonic() + 30 * SECOND)
        self.hands.incarnation += "'"
        self.hands.executing.clear()
        await self.hands.register()

    async def forget(self) -> None:
        """Sweep all that lanes have left on the floor."""
        await self.store.write(lambda tx: sweep_floor(tx, tx.now + 1, 100, b""))

    async def audit(self) -> None:
        assert await self.store.check() == []
        for gate in await self.store.gates(None):
            if gate.kind == "limit":
                assert 0 <= gate.in_use <= MOST[gate.name], gate

    async def finish(self) -> None:
        """Let everything end: a hundred times a second passes, and all that executes completes."""
        for _ in range(100):
            while started := await self.hands.turn(5):
                assert started
                await self.hands.end(*list(self.hands.executing), wanted=0)
            if self.hands.executing:
                await self.hands.end(*list(self.hands.executing), wanted=0)
            await self.hands.move(1)
        states = {run_id: await self.hands.state(run_id) for run_id in self.ids}
        assert set(states.values()) <= {"completed", "failed", "cancelled", "expired"}, states
        await self.audit()
        for gate in await self.store.gates(None):
            assert gate.in_use == 0, gate


async def play(history: History, *, sweeping: bool) -> None:
    declare(history.hands)
    await history.hands.register()
    await history.hands.submit("plain", params={"k": "a"})
    await history.hands.submit(history.names[-1], params={"k": "a"})
    for _ in range(80):
        at = history.chance.random()
        if at < 0.35:
            await history.submit()
        elif at < 0.75:
            await history.end()
        elif at < 0.83:
            await history.hands.move(history.chance.choice([0.5, 1, 4]))
        elif at < 0.88:
            await history.steer()
        elif at < 0.97 and history.ids:
            await history.meddle()
        elif at >= 0.97:
            await history.lapse()
        if sweeping:
            await history.forget()
        await history.audit()
    await history.finish()


@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_no_history_leaks_a_slot_or_strands_a_run(clock: VirtualClock, seed: int) -> None:
    """However soon what is unused is swept: in every other history, at once."""
    store = open_store("sqlite://", clock=clock)
    await play(History(seed, store, clock), sweeping=seed % 2 == 1)
    await store.close()


@pytest.mark.parametrize("seed", range(1000, 1000 + HISTORIES // 13))
async def test_none_does_so_on_any_store(store: Store, clock: VirtualClock, seed: int) -> None:
    await play(History(seed, store, clock), sweeping=False)
