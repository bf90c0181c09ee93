"""Looking at several shards: what each knows, as one answer. One that can't be reached is left out, where others have
something to say, and the log says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from pyrula.model.run import FINAL, Run
from pyrula.model.step import Entry
from pyrula.store.protocol import Gate
from pyrula.store.shard import reads, sentences
from pyrula.store.shard.shard import ShardStore
from pyrula.store.shard.tx import Tx
from pyrula.store.shard.why import all_held_back, serving_of
from pyrula.store.sharded import merging
from pyrula.store.sharded.finding import Finding
from pyrula.store.sharded.shards import Shards

T = TypeVar("T")
Row = dict[str, Any]
_OPEN = ("open", None)
_WORKERS = {"no_worker", "workers_held_back"}


class Looking:
    """The reads and pages of a store."""

    def __init__(self, shards: Shards, finding: Finding) -> None:
        self._shards, self._finding = shards, finding

    async def get(self, run_id: str) -> Run | None:
        return await self._finding.ask(run_id, lambda store: store.get(run_id))

    async def results(self, run_ids: Sequence[str]) -> list[tuple[str, bytes | None] | None]:
        """Per id; "open" where its shard can't be reached while others can: whoever waits for many goes on waiting."""
        found: dict[str, tuple[str, bytes | None]] = {}
        likely: dict[int, list[str]] = {}
        for run_id in dict.fromkeys(run_ids):
            likely.setdefault(self._finding.guess(run_id), []).append(run_id)
        lost = await self._results(likely, found)
        left = [run_id for run_id in dict.fromkeys(run_ids) if run_id not in found]
        if left:
            elsewhere, _ = await self._finding.by_shard(left)
            lost += await self._results(elsewhere, found)
        if lost and len(lost) == len(likely):
            raise lost[0]
        return [found.get(run_id) for run_id in run_ids]

    async def _results(
        self, asked: dict[int, list[str]], found: dict[str, tuple[str, bytes | None]]
    ) -> list[Exception]:
        answers, unreached = await self._shards.each(
            lambda store: store.results(asked[store.shard]), list(asked)
        )
        for shard, results in answers.items():
            found.update(
                {id: result for id, result in zip(asked[shard], results, strict=True) if result is not None}
            )
        for shard, _ in unreached:
            found.update(dict.fromkeys(asked[shard], _OPEN))
        return [error for _, error in unreached]

    async def finished(self, run_ids: Sequence[str], timeout: int | None) -> None:
        """As a store's: whichever of the shards says so first. One that can't be reached says nothing."""
        clock = self._shards.clock
        over = asyncio.Event()
        errors: list[Exception] = []

        async def one(shard: int) -> None:
            try:
                await self._shards.ask(shard, lambda store: store.finished(run_ids, timeout))
            except Exception as error:
                errors.append(error)
                if len(errors) < len(self._shards.numbers):
                    return
            over.set()

        asked = [asyncio.ensure_future(one(shard)) for shard in self._shards.numbers]
        try:
            await clock.wait(over, timeout)
        finally:
            for asking in asked:
                asking.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        if len(errors) == len(self._shards.numbers):
            raise errors[0]

    async def runs(
        self, workflow: str | None, state: str | None, key: str | None, limit: int, cursor: str | None
    ) -> tuple[list[Run], str | None]:
        before = merging.cursors(cursor, len(self._shards.numbers))

        def look(store: ShardStore, tx: Tx) -> merging.Numbered:
            return reads.numbered(tx, workflow, state, key, limit, before[store.shard])

        pages = await self._shards.some(lambda store: store.read(partial(look, store)))
        return merging.newest(pages, before, limit)

    async def log(self, run_id: str) -> list[Entry]:
        return await self._finding.ask(run_id, lambda store: _unless_empty(store.log(run_id))) or []

    async def why(self, run_id: str) -> Row | None:
        answer = await self._finding.ask(run_id, lambda store: store.why(run_id))
        if answer is None:
            return None
        for reason in answer["reasons"]:
            if reason.get("what") == "child" and reason["state"] is None:
                child = await self.get(reason["run_id"])
                reason["state"] = None if child is None else child.state
                answer["text"] = sentences.text(answer)
        if answer["state"] == "queued" and not _WORKERS & {reason["kind"] for reason in answer["reasons"]}:
            held = all_held_back(serving_of(await self.workers(), answer["workflow"]))
            if held:  # by what a worker executes on all shards, of which the run's own knows a part
                answer |= {"reasons": [*answer["reasons"], *held], "earliest_start": None}
                answer["text"] = sentences.text(answer)
        return answer

    async def open_runs(self, workflow: str, unit_key: str, limit: int) -> list[str]:
        """As a store's: of the newest of all shards."""
        pages = await self._shards.every(
            lambda store: store.view(
                partial(reads.numbered, workflow=workflow, state=None, key=unit_key, limit=limit, cursor=None)
            )
        )
        found, _ = merging.newest(pages, [None] * len(pages), limit)
        return [run.run_id for run in found if run.state not in FINAL]

    async def gates(self, name: str | None, key: str | None, limit: int) -> list[Gate]:
        answers = await self._shards.some(lambda store: store.gates(name, key, limit))
        return sorted(merging.gates(answers.values()), key=merging.by_name)[:limit]

    async def gate_page(
        self, name: str | None, search: str | None, sort: str, limit: int, offset: int
    ) -> list[Gate]:
        answers = await self._shards.some(
            lambda store: store.gate_page(name, search, sort, limit + offset, 0)
        )
        return merging.sorted_gates(merging.gates(answers.values()), sort)[offset : offset + limit]

    async def gate(self, name: str, key: str) -> Gate | None:
        answers = await self._shards.some(lambda store: store.gate(name, key))
        found = merging.gates([[gate] for gate in answers.values() if gate is not None])
        return max(found, key=lambda gate: gate.queued, default=None)

    async def line(self, gate: str, key: str, limit: int) -> tuple[list[Row], list[Row]]:
        answers = (await self._shards.some(lambda store: store.line(gate, key, limit))).values()
        holders, waiters = ([row for each in answers for row in each[part]] for part in (0, 1))
        return holders[:limit], waiters[:limit]

    async def overview(self) -> Row:
        return merging.overview(list((await self._shards.some(lambda store: store.overview())).values()))

    async def ended(self, minute: int) -> tuple[int, int]:
        counts = (await self._shards.some(lambda store: store.ended(minute))).values()
        return sum(count for count, _ in counts), sum(otherwise for _, otherwise in counts)

    async def sorted_rows(self, call: Callable[[ShardStore], Any], key: Callable[[Row], Any]) -> list[Row]:
        """Rows of all shards in one order."""
        return merging.rows((await self._shards.some(call)).values(), key)

    async def rows_once(self, call: Callable[[ShardStore], Any], *names: str) -> list[Row]:
        """Rows that several shards may hold alike."""
        return merging.once((await self._shards.some(call)).values(), *names)

    async def workers(self) -> list[Row]:
        answers, unreached = await self._shards.each(lambda store: store.workers())
        if not answers:
            raise unreached[0].error
        return merging.workers(answers, {shard: str(error) for shard, error in unreached})

    async def children(self, run_id: str, limit: int) -> list[Row]:
        found = await self.sorted_rows(
            lambda store: store.children(run_id, limit), merging.by_time("submitted_at")
        )
        return found[:limit]

    async def check(self) -> list[str]:
        """Every shard's audit, and which could not be looked at."""
        answers, unreached = await self._shards.each(lambda store: store.check())
        found = [f"shard {shard}: {sentence}" for shard, some in answers.items() for sentence in some]
        return found + [f"shard {shard} could not be looked at: {error}" for shard, error in unreached]


async def _unless_empty(answer: Any) -> Any:
    return await answer or None
