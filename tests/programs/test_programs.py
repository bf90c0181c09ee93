"""Random durable programs under random faults: all end, with what they must answer, whoever is killed meanwhile.

PYRULA_TEST_PROGRAMS=1000 for more. After each moment the store's audit finds nothing; no limit is passed by what the
bodies see of themselves; no step is made again once it was recorded.
"""

from __future__ import annotations

import os

import pytest

from pyrula.testing import Environment
from pyrula.workflows import RunNotFound
from tests.programs.plan import NAMES, World, agrees

PROGRAMS = int(os.environ.get("PYRULA_TEST_PROGRAMS", "60"))
OPEN = ("queued", "executing", "parked")


class Play:
    """One store, up to three workers that come and go, and chance."""

    def __init__(self, seed: int, url: str | None) -> None:
        self.world = world = World(seed)
        self.chance = world.chance
        self.lease = self.chance.choice([10, 30])
        self.env = world.env = Environment(
            url,
            world.registry,
            worker=False,
            max_concurrent_runs=self.chance.choice([1, 2, 5, 50]),
            lease_seconds=self.lease,
        )
        self.answers: dict[str, object] = {}
        self.cancelled: set[str] = set()
        self.sent: set[tuple[str, str]] = set()

    async def submit(self) -> None:
        plan, answer = self.world.plan(self.chance.choice([1, 2, 3]))
        params = {"key": self.chance.choice(["k0", "k1"]), "plan": plan}
        run_id = await self.env.client.submit(self.chance.choice(NAMES), params)
        self.answers[run_id] = answer
        self.world.runs.add(run_id)

    async def advance(self, seconds: float) -> None:
        await self.env.advance(seconds)
        assert await self.env.store.check() == []

    async def send(self) -> None:
        """Most events that somebody waits for come now, and some of them twice."""
        for run_id, name in [each for each in self.world.asked if each not in self.sent]:
            if self.chance.random() < 0.3:
                continue
            self.sent.add((run_id, name))
            for _ in range(self.chance.choice([1, 1, 2])):
                try:
                    await self.env.client.send_event(run_id, name, name, event_id=name)
                except RunNotFound:
                    assert run_id.partition("/")[0] in self.cancelled

    async def lose_a_worker(self) -> None:
        if self.env.workers:
            worker = self.chance.choice(self.env.workers)
            if self.chance.random() < 0.5:
                await self.env.kill(worker)
            else:
                await self.env.stop_worker(worker, self.chance.choice([0, 1]))

    async def cancel(self) -> None:
        run_id = self.chance.choice(sorted(self.answers))
        self.cancelled.add(run_id)
        await self.env.client.cancel(run_id)

    async def act(self) -> None:
        at = self.chance.random()
        if at < 0.15:
            await self.submit()
        elif at < 0.55:
            await self.advance(self.chance.choice([0, 0.1, 1, 1, 1, 2, 3, 12]))
        elif at < 0.75:
            await self.send()
        elif at < 0.85:
            await self.lose_a_worker()
        elif at < 0.92 and len(self.env.workers) < 3:
            await self.env.start_worker()
        elif at < 0.94:
            await self.cancel()
        else:
            await self.advance(self.lease + 1)

    async def finish(self) -> None:
        """Let everything end."""
        if not self.env.workers:
            await self.env.start_worker()
        left = sorted(self.world.runs)
        for _ in range(300):
            await self.send()
            await self.advance(self.chance.choice([1, 5, 41]))
            runs = [await self.env.client.get(run_id) for run_id in sorted(self.world.runs)]
            left = [run.run_id for run in runs if run.state in OPEN]
            if not left:
                break
        assert not left, [(run_id, (await self.env.client.why(run_id))["text"]) for run_id in left]

    async def judge(self) -> None:
        for run_id, answer in self.answers.items():
            run = await self.env.client.get(run_id)
            if run_id in self.cancelled and run.state == "cancelled":
                continue
            assert run.state == "completed", run
            assert agrees(run.result, answer), (run, answer)
        assert self.world.wrong == []


async def play(seed: int, url: str | None) -> None:
    game = Play(seed, url)
    async with game.env:
        for _ in range(game.chance.choice([1, 2, 2])):
            await game.env.start_worker()
        for _ in range(game.chance.choice([1, 3, 5])):
            await game.submit()
        for _ in range(game.chance.choice([5, 15, 30])):
            await game.act()
        await game.finish()
        await game.judge()


@pytest.mark.parametrize("seed", range(PROGRAMS))
async def test_programs_answer_the_same_whoever_is_killed(seed: int) -> None:
    await play(seed, None)


@pytest.mark.parametrize("seed", range(1000, 1000 + PROGRAMS // 30))
async def test_they_do_so_on_any_store(store_url: str, seed: int) -> None:
    await play(seed, store_url)
