"""Deadlocks over several shards: runs that wait for each other through slots they hold, where no shard sees the cycle.

Each shard tells whom its runs wait for. They are not asked at one instant, so a cycle counts once it was seen twice,
the same runs waiting for the same: a wait that is over never comes back, so none of these was over in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pyrula.clock import SECOND
from pyrula.store.shard import deadlock
from pyrula.store.shard.deadlock import Looked, Waiting
from pyrula.store.shard.shard import ShardStore
from pyrula.store.sharded.shards import Shards

_EVERY: Final = 4 * SECOND
_AGAIN: Final = SECOND
_ROUNDS: Final = 1000


@dataclass(slots=True)
class _Picture:
    """Who waits for whom. A run is its number times the number of shards, plus its shard. names: a parent's children;
    where: id → run."""

    shards: int
    waiting: Waiting = field(default_factory=Waiting)
    names: dict[int, list[str]] = field(default_factory=dict)
    where: dict[str, int] = field(default_factory=dict)
    away: dict[str, int] = field(default_factory=dict)

    def add(self, shard: int, looked: Looked) -> list[int]:
        """Take in what a shard told; answers the runs of it to look at next."""
        part, waiting = looked.waiting, self.waiting
        waiting.runs.update({self._run(seq, shard): run_id for seq, run_id in part.runs.items()})
        waiting.gates.update({self._run(seq, shard): gate for seq, gate in part.gates.items()})
        waiting.inside.update(
            {gate: [self._run(seq, shard) for seq in seqs] for gate, seqs in part.inside.items()}
        )
        waiting.room.update(part.room)
        waiting.names.update(part.names)
        self.names.update({self._run(seq, shard): names for seq, names in looked.names.items()})
        self.where.update({run_id: self._run(seq, shard) for run_id, seq in looked.seqs.items()})
        self.away.update(looked.away)
        return looked.more

    def _run(self, seq: int, shard: int) -> int:
        return seq * self.shards + shard

    def cycle(self) -> list[int]:
        """A cycle that goes over several shards; empty if there is none."""
        self.waiting.children = {
            parent: [self.where[name] for name in names]
            for parent, names in self.names.items()
            if all(name in self.where for name in names)
        }
        cycle = deadlock.cycle_of(self.waiting, deadlock.stuck(self.waiting))
        return cycle if len({run % self.shards for run in cycle}) > 1 else []


class Deadlocks:
    """Looks now and then, where something may be found."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._next = 0
        self._suspected: list[int] = []

    def next_in(self) -> int | None:
        """µs until a cycle that was seen once is to be seen again."""
        return max(0, self._next - self._shards.clock.monotonic()) if self._suspected else None

    async def look(self) -> int | None:
        """Look, if it is time; the shard from which messages go out since a cycle was broken."""
        now = self._shards.clock.monotonic()
        if now < self._next:
            return None
        suspects, _ = await self._shards.each(
            lambda store: store.read(lambda tx: tx.rows("deadlock.suspects", 0, 1))
        )
        picture = await self._picture() if any(suspects.values()) else _Picture(1)
        cycle = picture.cycle()
        seen, self._suspected = self._suspected, cycle
        self._next = now + (_AGAIN if cycle else _EVERY)
        if not cycle or seen != cycle:
            return None
        self._suspected, self._next = [], now
        return await self._break(picture, cycle)

    async def _picture(self) -> _Picture:
        picture = _Picture(len(self._shards.numbers))
        seqs: dict[int, list[int] | None] = dict.fromkeys(self._shards.numbers)
        names: dict[int, list[str]] = {}
        seen: set[tuple[int, int | str]] = set()
        for _ in range(_ROUNDS):
            asked = sorted({*seqs, *names})
            if not asked:
                break
            told, _ = await self._shards.each(partial(_look, seqs=seqs, names=names), asked)
            seqs, names = {}, {}
            for shard, looked in told.items():
                more = [seq for seq in picture.add(shard, looked) if (shard, seq) not in seen]
                seen.update((shard, seq) for seq in more)
                if more:
                    seqs[shard] = more
                for name, place in looked.away.items():
                    if (place, name) not in seen:
                        seen.add((place, name))
                        names.setdefault(place, []).append(name)
        return picture

    async def _break(self, picture: _Picture, cycle: Sequence[int]) -> int | None:
        """Fail the wait of the youngest parent in the cycle, and cancel the child it was for."""
        shards = picture.shards
        ages = {run: await self._submitted(run, shards) for run in cycle if run in picture.waiting.children}
        parent = max(ages, key=lambda run: (ages[run], run))
        child = cycle[(cycle.index(parent) + 1) % len(cycle)]
        name = picture.waiting.runs[child]
        verb = partial(
            deadlock.give_up,
            parent=parent // shards,
            child=name,
            shard=picture.away.get(name),
            message=deadlock.advice(picture.waiting, cycle, parent, child),
        )
        await self._shards.ask(parent % shards, lambda store: store.write(verb))
        return parent % shards

    async def _submitted(self, run: int, shards: int) -> int:
        seq = run // shards
        row = await self._shards.ask(
            run % shards, lambda store: store.read(lambda tx: tx.row("pages.submitted_at", seq))
        )
        return 0 if row is None else int(row[1])


async def _look(
    store: ShardStore, seqs: Mapping[int, Sequence[int] | None], names: Mapping[int, Sequence[str]]
) -> Looked:
    verb = partial(deadlock.look, seqs=seqs.get(store.shard, ()), run_ids=names.get(store.shard, ()))
    return await store.read(verb)
