"""A turn: a worker hands in what ended and is handed what may start, in one transaction under the shard's lock."""

from __future__ import annotations

from pyrula.model.lease import Lease
from pyrula.store.protocol import Handed, Signal, TurnRequest
from pyrula.store.shard import aside
from pyrula.store.shard.admit import Hall, admit
from pyrula.store.shard.drain import Broom, drain, next_due
from pyrula.store.shard.handin import CANCEL, hand_in
from pyrula.store.shard.reap import reap
from pyrula.store.shard.tx import Tx


def turn(tx: Tx, request: TurnRequest, hall: Hall, broom: Broom) -> Handed:
    """Hand in, reap, drain, admit, answer."""
    proved = _prove_alive(tx, request.incarnation)
    if proved is None:
        return Handed(now=tx.now, refused=tuple(lease for lease, _ in request.outcomes), lost=True)
    worker_id, number = proved
    refused, freed = hand_in(tx, request.incarnation, worker_id, request.outcomes)
    more = reap(tx)
    more = drain(tx, hall.shard, broom) or more
    aside.look(tx, request.incarnation, hall.versions)
    claims, more_to_admit, changes = admit(tx, request, hall, freed)
    return Handed(
        now=tx.now,
        claims=claims,
        refused=refused,
        signals=_signals(tx, request.incarnation, hall.shard),
        limiters=None if number <= request.limiters else _limiters(tx, request.incarnation, number),
        next_in=0
        if more or more_to_admit
        else next_due(tx, request.incarnation, broom, hall.versions, room=len(claims) < request.wanted),
        rung=changes.rung,
        waits=changes.waits,
    )


def _prove_alive(tx: Tx, incarnation: str) -> tuple[str, int] | None:
    """The worker's id, and the number of the newest change of its limiters; None if it was given up.

    Taking a turn proves life: half-way through the lease it renews.
    """
    row = tx.row("turn.worker", incarnation)
    if row is None:
        return None
    worker_id, lease, expires_at, number = row
    if expires_at - tx.now < lease // 2:
        tx.run("turn.renew", incarnation, tx.now + lease)
    return str(worker_id), int(number)


def _limiters(tx: Tx, incarnation: str, number: int) -> tuple[int, bytes] | None:
    row = tx.row("turn.limiters", incarnation)
    return None if row is None or row[0] is None else (number, bytes(row[0]))


def _signals(tx: Tx, incarnation: str, shard: int) -> tuple[Signal, ...]:
    """News for runs of this worker. A cancel is told once, as the worker remembers it; the lease keeps it."""
    rows = tx.rows("turn.signals", incarnation)
    if not rows:
        return ()
    tx.many("turn.told", [(seq,) for seq, _, _ in rows])
    return tuple(Signal(Lease(seq, epoch, shard), bool(signal & CANCEL)) for seq, epoch, signal in rows)
