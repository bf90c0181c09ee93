"""Reap: workers whose heartbeat lapsed. Their runs return to the head of their lanes, and their slots go back."""

from __future__ import annotations

from pyrula.store.shard.finish import finish_all, free
from pyrula.store.shard.handin import CANCEL, Held, leave, requeue
from pyrula.store.shard.tx import Tx

_WORKERS, _LEASES = 8, 256


def reap(tx: Tx) -> bool:
    """Give up on lapsed workers; True when some of their leases are left for the next turn."""
    more = False
    for (incarnation,) in tx.rows("reap.lapsed", tx.now, _WORKERS):
        more = give_up(tx, incarnation, lapsed=True) or more
    return more


def give_up(tx: Tx, incarnation: str, *, lapsed: bool) -> bool:
    """Take the leases of a worker back, a batch of them; True when some are left. Its row goes with the last."""
    rows = tx.rows("reap.leases", incarnation, _LEASES + 1)
    tx.many("handin.drop_lease", [(row[0],) for row in rows[:_LEASES]])
    lost: list[Held] = []
    for seq, claimed_at, slots, held, signal, worker_id in rows[:_LEASES]:
        lease = Held(seq, claimed_at, slots, held, signal)
        if signal & CANCEL:
            free(tx, leave(tx, [lease], ended=True))
            finish_all(tx, [(seq, "cancelled", None, None, worker_id, claimed_at)])
        else:
            lost.append(lease)
    if lapsed:
        tx.many("reap.lapse", [(lease.seq,) for lease in lost])
    free(tx, leave(tx, lost, ended=False))
    requeue(tx, lost, resumed=True)
    if len(rows) > _LEASES:
        return True
    tx.run("reap.forget", incarnation)
    return False
