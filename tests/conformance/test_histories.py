"""Random histories of all that can happen to runs with held slots, shared gates, rates and families.

After each step the audit finds nothing and no gate is over its limit; at the end all of them finish.
"""

from __future__ import annotations

import random

import msgspec
import pytest

from pyrula.clock import SECOND
from pyrula.model.outcome import Cancelled, Completed, Failed, Outcome, Parked, Postponed, Released, Retry
from pyrula.model.step import Entry
from pyrula.policies.limit import Limit
from pyrula.policies.rate import Rate
from pyrula.policies.stamp import Stamped
from pyrula.store.open import open_store
from pyrula.store.shard.sweep import sweep_floor
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import Hands, child, event, sleep

ERROR = b'{"type":"E","message":"no"}'
MOST = {"plain.limit": 2, "shared": 2, "held": 1}


def declare(hands: Hands, most: int = 2) -> None:
    shared = Limit(key="k", max=2, shared="shared")
    held = Limit(key="k", max=1, shared="held", hold="run")
    hands.declare("plain", concurrency=Limit(key="k", max=most))
    hands.declare("both", concurrency=[shared, held])
    hands.declare("rated", concurrency=shared, rate_limit=Rate(key="k", per_second=0.5, burst=2))
    hands.declare("keeps", concurrency=held)
    hands.declare("free")


class History:
    """One store, one worker that sometimes vanishes, and chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = VirtualClock()
        self.store = open_store("sqlite://", clock=self.clock)
        self.hands = Hands(self.store, self.clock)
        self.ids: list[str] = []
        self.entries: dict[str, int] = {}

    async def submit(self) -> None:
        name = self.chance.choice(["plain", "both", "rated", "keeps", "keeps", "free"])
        parent = (
            self.chance.choice(list(self.hands.executing)) if self.hands.executing and self.coin() else None
        )
        run_id = f"r{len(self.ids)}"
        self.ids.append(run_id)
        more = {"delay": 3} if self.coin(0.1) else {"expires_in": 4} if self.coin(0.1) else {}
        params = {"k": self.chance.choice("ab")}
        priority = self.chance.choice([None, None, 1, 5])
        await self.hands.submit(name, run_id, params=params, parent=parent, priority=priority, **more)
        if parent is not None and self.coin(0.7):
            await self.hand_in(parent, Parked((child(self.number(parent), run_id, branch="0"),)))

    def coin(self, p: float = 0.5) -> bool:
        return self.chance.random() < p

    def number(self, run_id: str) -> int:
        self.entries[run_id] = self.entries.get(run_id, -1) + 1
        return self.entries[run_id]

    async def hand_in(self, run_id: str, outcome: Outcome) -> None:
        await self.hands.end(run_id, outcome=outcome, wanted=self.chance.choice([0, 1, 5]))

    async def end(self) -> None:
        if not self.hands.executing:
            await self.hands.turn(self.chance.choice([1, 5]))
            return
        run_id = self.chance.choice(list(self.hands.executing))
        now = await self.store.now()
        number = self.number(run_id)
        wait: Entry = self.chance.choice([sleep(number, now + SECOND), event(number, "go", now + 3 * SECOND)])
        outcomes = [
            Completed(b"1"), Failed(ERROR), Cancelled(), Retry(ERROR, SECOND), Released(), Parked((wait,)),
            Parked((wait,)), Postponed(SECOND),
        ]  # fmt: skip
        await self.hand_in(run_id, self.chance.choice(outcomes))

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


@pytest.mark.parametrize("seed", range(40))
async def test_no_history_leaks_a_slot_or_strands_a_run(seed: int) -> None:
    """However soon what is unused is swept: in every other history, at once."""
    history = History(seed)
    declare(history.hands)
    await history.hands.register()
    for name in ("plain", "both"):
        await history.hands.submit(name, params={"k": "a"})
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
        if seed % 2:
            await history.forget()
        await history.audit()
    await history.finish()
    await history.store.close()
