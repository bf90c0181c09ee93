"""Sweep: forget runs that ended long ago, and what only they had use for. A batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from pyrula.store.shard import family
from pyrula.store.shard.outbox import Farewell, send
from pyrula.store.shard.placing import owner
from pyrula.store.shard.tx import Row, Tx


def sweep(tx: Tx, before: int, limit: int = 200) -> int:
    """Delete runs that ended before `before` (store µs), the oldest first, with their logs and events; how
    many.

    A child is kept as long as its parent is open: the parent may wait for it yet. Lanes that stand empty, and
    the slot gates of runs that are over, go too, as far as this batch looks.
    """
    seqs = tx.rows("sweep.runs", before, limit)
    parents: set[str] = set()
    here, shards = tx.rows("outbox.here")[0]
    if shards > 1:
        _take_leave(tx, seqs, here, shards)
        parents = family.part(tx, seqs)
    for block in _OF_A_RUN:
        tx.many(block, seqs)
    family.forget(tx, parents)
    place = _anywhere(tx.now)
    tx.many("sweep.lane", tx.rows("sweep.empty_lanes", place, limit))
    tx.run("sweep.slot_gates", place, limit)
    return len(seqs)


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
