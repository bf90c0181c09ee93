"""Random programs of durable calls, each with what it must answer, and the bodies that carry them out.

A program is JSON, so that it travels as the params of its run: `[kind, number, …]`. What it answers depends neither on
who is killed meanwhile nor on what comes first.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter, defaultdict
from typing import Any

from pyrula.testing import Environment
from pyrula.workflows import (
    Context,
    Limit,
    Rate,
    Registry,
    Retry,
    RetryAfter,
    RunFailed,
    SlotDeadlock,
    StepFailed,
    workflow,
)

Plan = list[Any]
MOST = {"limited": 2, "keeping": 3, "both": 1}
"""Of the workflows that have a limit, how many of a key execute at once."""
NAMES = ["free", "limited", "keeping", "rated", "retrying", "both"]
NEVER = 10**6
"""Seconds that no test lasts."""
_LEAVES = ["sleep", "event", "late", "flaky", "hopeless", "draw", "now", "later", "failure", *["step"] * 4]
_NODES = ["group", "start", "attempts", *["child", "family"] * 2, *["seq", "gather"] * 3]
DEADLOCK = "deadlock"
"""What a program answers in place of a child that would have waited for its own parent's slot."""


class World:
    """What the bodies did, seen from outside of what survives them, and what they did that they must not do."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.numbers = itertools.count()
        self.registry = Registry()
        self.env: Environment
        self.runs: set[str] = set()
        self.asked: dict[tuple[str, str], None] = {}
        """(run, event) that somebody waits for."""
        self.wrong: list[str] = []
        self._tries: Counter[object] = Counter()
        self._steps: dict[object, str] = {}
        self._recorded: set[str] = set()
        self._drawn: dict[object, object] = {}
        self._executing: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._declare("free")
        self._declare("limited", concurrency=Limit(key="key", max=MOST["limited"]))
        self._declare("keeping", concurrency=Limit(key="key", max=MOST["keeping"], hold="run"))
        self._declare("rated", rate_limit=Rate(key="key", per_second=5, burst=2))
        self._declare("retrying", retry=Retry(max_attempts=4, initial_seconds=0.5))
        rate = Rate(key="key", per_second=20, burst=3)
        self._declare("both", concurrency=Limit(key="key", max=MOST["both"]), rate_limit=rate)
        workflow(_fails, name="failing", registry=self.registry)

    # -- what a program is

    def plan(self, depth: int) -> tuple[Plan, Any]:
        """A program of at most this depth, and what it answers."""
        kind = self.chance.choice(_LEAVES + (_NODES if depth > 0 else []))
        return self._leaf(kind) if kind in _LEAVES else self._node(kind, depth - 1)

    def _leaf(self, kind: str) -> tuple[Plan, Any]:
        pick, number = self.chance.choice, next(self.numbers)
        match kind:
            case "step":
                return [kind, number, pick([0, 0, 0, 1, 2])], number
            case "sleep":
                return [kind, number, pick([0, 1, 1, 2, 3, 40])], kind
            case "event":
                return [kind, number, pick([None, NEVER])], f"e{number}"
            case "late":
                return [kind, number, pick([0, 1, 7])], kind
            case "flaky":
                return [kind, number, pick([1, 2]), pick([0.1, 3])], number
            case "hopeless":
                return [kind, number, pick([0.1, 3])], kind
            case "later":
                return [kind, number, pick([1, 2])], kind
            case _:
                return [kind, number], kind

    def _node(self, kind: str, depth: int) -> tuple[Plan, Any]:
        pick, number = self.chance.choice, next(self.numbers)
        match kind:
            case "attempts":
                (first, its), (then, answer) = self.plan(0), self.plan(0)
                return self._child("retrying", [kind, number, pick([1, 2]), first, then]), [its, answer]
            case "family":
                plans = [self.plan(pick([0, depth])) for _ in range(pick([2, 3, 4]))]
                children = [self._child(pick(["free", *NAMES]), plan) for plan, _ in plans]
                return ["gather", number, children], [answer for _, answer in plans]
            case "child":
                plan, answer = self.plan(depth)
                options = pick([{}, {}, {"delay": 2}, {"priority": 1}, {"priority": 5}])
                return self._child(pick(NAMES), plan, options), answer
            case "start":
                return [kind, number, pick(NAMES), self.plan(depth)[0]], kind
            case _:
                plans = [self.plan(depth) for _ in range(pick([1, 2, 2, 3]))]
                return [kind, number, [plan for plan, _ in plans]], [answer for _, answer in plans]

    def _child(self, name: str, plan: Plan, options: dict[str, Any] | None = None) -> Plan:
        return ["child", next(self.numbers), name, plan, options or {}]

    # -- what carries it out

    def _declare(self, name: str, **policies: Any) -> None:
        async def body(ctx: Context, key: str, plan: Plan) -> Any:
            self.runs.add(ctx.run_id)
            place = name, key
            self._executing[place] += 1
            if self._executing[place] > MOST.get(name, NEVER):
                self.wrong.append(f"{self._executing[place]} runs of {name} execute at once for {key}")
            try:
                return await self._do(ctx, plan)
            finally:
                self._executing[place] -= 1

        workflow(body, name=name, registry=self.registry, **policies)

    async def _do(self, ctx: Context, plan: Plan) -> Any:
        kind, number, *rest = plan
        match kind:
            case "seq":
                return [await self._do(ctx, each) for each in rest[0]]
            case "gather":
                return list(await asyncio.gather(*(self._do(ctx, each) for each in rest[0])))
            case "group":
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(self._do(ctx, each)) for each in rest[0]]
                return [task.result() for task in tasks]
            case "attempts":
                answer = await self._do(ctx, rest[1])
                if ctx.attempt <= rest[0]:
                    raise ValueError("not in this attempt")
                return [answer, await self._do(ctx, rest[2])]
            case "child" | "start" | "failure":
                return await self._family(ctx, kind, number, rest)
            case "step" | "flaky" | "hopeless":
                return await self._step(ctx, kind, number, rest)
            case _:
                return await self._wait(ctx, kind, number, rest)

    async def _family(self, ctx: Context, kind: str, number: int, rest: Plan) -> Any:
        key = f"k{number % 2}"
        if kind == "failure":
            try:
                return await ctx.run_child("failing", {"key": key})
            except RunFailed:
                return kind
        if kind == "start":
            self.runs.add(await ctx.start_child(rest[0], {"key": key, "plan": rest[1]}))
            return kind
        try:
            return await ctx.run_child(rest[0], {"key": key, "plan": rest[1]}, **rest[2])
        except SlotDeadlock:
            return DEADLOCK

    async def _step(self, ctx: Context, kind: str, number: int, rest: Plan) -> Any:
        place = ctx.run_id, number

        async def step() -> int:
            if ctx.step_id in self._recorded:
                self.wrong.append(f"step {ctx.step_id} was made again after it was recorded")
            self._steps[place] = ctx.step_id
            if kind == "hopeless" or (kind == "flaky" and self._again(place, rest[0])):
                raise ValueError(kind)
            if kind == "step" and rest[0]:
                await self.env.sleep(rest[0])
            for _ in range(self.chance.choice([0, 0, 1, 3, 9])):
                await asyncio.sleep(0)
            return number

        retry = Retry(
            max_attempts=1 if kind == "step" else 3, initial_seconds=1 if kind == "step" else rest[-1]
        )
        try:
            answer = await ctx.step(step, name=f"{kind}{number}", retry=retry)
        except StepFailed:
            return kind
        self._recorded.add(self._steps[place])
        return answer

    async def _wait(self, ctx: Context, kind: str, number: int, rest: Plan) -> Any:
        match kind:
            case "sleep":
                await ctx.sleep(rest[0])
            case "event":
                self.asked[ctx.run_id, f"e{number}"] = None
                return await ctx.wait_for_event(f"e{number}", timeout=rest[0])
            case "late":
                try:
                    return await ctx.wait_for_event(f"never{number}", timeout=rest[0])
                except TimeoutError:
                    return kind
            case "later":
                if self._again((ctx.run_id, number), rest[0]):
                    raise RetryAfter(self.chance.choice([0.1, 5]))
            case "draw":
                drawn = ctx.random(), ctx.uuid4()
                if self._drawn.setdefault((ctx.run_id, number), drawn) != drawn:
                    self.wrong.append(f"run {ctx.run_id} drew another number when it was replayed")
            case "now":
                ctx.now()
        return kind

    def _again(self, place: object, times: int) -> bool:
        self._tries[place] += 1
        return self._tries[place] <= times


async def _fails(ctx: Context, key: str) -> None:
    raise ValueError("it fails")


def agrees(answer: Any, expected: Any) -> bool:
    """Whether a program answered what it must, but for children that could never have started."""
    if isinstance(answer, list) and isinstance(expected, list):
        return len(answer) == len(expected) and all(map(agrees, answer, expected))
    return bool(answer in (expected, DEADLOCK))
