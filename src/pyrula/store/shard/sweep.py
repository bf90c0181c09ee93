"""Sweep: forget runs that ended long ago, and what only they had use for. A batch at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from pyrula.policies.tokens import paid_off
from pyrula.store.shard import family
from pyrula.store.shard.finish import taken
from pyrula.store.shard.outbox import Farewell, send
from pyrula.store.shard.placing import owner
from pyrula.store.shard.tx import Row, Tx

_GLANCE, _WORTH_IT = 16, 2
"""Of so many lanes, or slot gates, next to a place so many must be of no use any more for the whole batch to be looked
at: where all are in use, it would be looked at again and again for nothing."""


Place = tuple[int, int]
"""When a run ended (store µs), and its seq."""
OLDEST: Final[Place] = (0, 0)


class Swept(NamedTuple):
    """What a sweep came to. runs: how many it deleted; to: the last one looked at; more: others are due."""

    runs: int
    to: Place
    more: bool


def sweep(tx: Tx, before: int, limit: int = 200, behind: Place = OLDEST) -> Swept:
    """Delete runs that ended before `before` (store µs), the oldest behind `behind` first, with their logs and events;
    looks at `limit` of them.

    A child is kept as long as its parent is open: the parent may wait for it yet. Who goes on where the last one ended
    does not look at them again and again. What runs have left on the floor goes, too.
    """
    found = tx.rows("sweep.runs", before, limit, *behind)
    seqs = [(seq,) for seq, _, kept in found if not kept]
    parents: set[str] = set()
    here, shards = tx.rows("outbox.here")[0]
    if shards > 1:
        _take_leave(tx, seqs, here, shards)
        parents = family.part(tx, seqs)
    for block in _OF_A_RUN:
        tx.many(block, seqs)
    family.forget(tx, parents)
    sweep_floor(tx, before, limit, _anywhere(tx.now))
    to = (found[-1][1], found[-1][0]) if found else behind
    return Swept(len(seqs), to, len(found) >= limit)


def sweep_floor(tx: Tx, before: int, limit: int, place: bytes) -> None:
    """Delete lanes that stand empty and slot gates of runs that are over, of those next to `place` in the order of
    their ids; and units and keyed gates that nothing has used since `before`, the longest unused first.
    """
    noted = _drop_lanes(tx, _empty_lanes(tx, place, limit))
    if tx.run("sweep.slot_gates", place, min(limit, _GLANCE)) >= _WORTH_IT:
        tx.run("sweep.slot_gates", place, limit)
    _forget_unused(tx, before, max(limit, 2 * noted))


def _empty_lanes(tx: Tx, place: bytes, limit: int) -> list[Row]:
    found = tx.rows("sweep.empty_lanes", place, min(limit, _GLANCE))
    return tx.rows("sweep.empty_lanes", place, limit) if len(found) >= _WORTH_IT else found


def _drop_lanes(tx: Tx, lanes: Sequence[Row]) -> int:
    """Delete lanes, given as (id, unit, gates), and note which gates and units may be unused now; how many at most."""
    tx.many("sweep.lane", [(lane,) for lane, _, _ in lanes])
    named = Counter(gate for _, _, gates in lanes for gate in taken(gates))
    tx.many("admit.named", [(gate, -n) for gate, n in named.items()])
    units = {unit for _, unit, _ in lanes}
    tx.many("sweep.unused_gate", [(gate, tx.now) for gate in named])
    tx.many("sweep.unused_unit", [(unit, tx.now) for unit in units])
    return len(named) + len(units)


def _forget_unused(tx: Tx, before: int, limit: int) -> None:
    """Delete gates and units of which no lane was swept since `before`, and that none has used since.

    A gate goes if a new one would let the same runs pass at the same times; else it is looked at again as long after.
    A unit that has started nothing since takes its next turn as a new one does: by at most one start sooner.
    """
    due = tx.rows("sweep.unused", before, limit)
    tx.many("sweep.used", [(id,) for id, _ in due])
    tx.many("sweep.unit", [(id, vtime) for id, vtime in due if vtime is not None])
    gates = [(id, tx.now) for id, vtime in due if vtime is None]
    spare = tx.match("sweep.spare_gates", gates)
    gone = {id for id, debt, at, q in spare if paid_off(int(debt), at, q, tx.now)}
    tx.many("sweep.gate", [(id,) for id in gone])
    tx.many("sweep.unused_gate", [gate for gate in gates if gate[0] not in gone])


def _take_leave(tx: Tx, seqs: Sequence[Row], here: int, shards: int) -> None:
    """Ids that were chosen may be chosen again."""
    leaving = tx.match("chosen.leaving", seqs)
    tx.many("chosen.drop", [(run_id,) for run_id, _ in leaving])
    told = [(owner(run_id, shards), Farewell(run_id, times)) for run_id, times in leaving]
    send(tx, [(shard, farewell) for shard, farewell in told if shard != here])


_OF_A_RUN = (
    "sweep.steps",
    "sweep.events",
    "sweep.event_ids",
    "cancel.timers",
    "cancel.wall_timers",
    "sweep.run",
)


def _anywhere(now: int) -> bytes:
    """Where to look for lanes and gates this time: ids are digests, one place is as good as another."""
    return blake2b(str(now).encode(), digest_size=16).digest()
