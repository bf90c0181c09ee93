"""Hand in: what became of the runs a worker executed. Leases go, slots go back, and each run goes where it
belongs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from pyrula.model.lease import Lease
from pyrula.model.outcome import (
    Cancelled,
    Completed,
    Failed,
    Outcome,
    Parked,
    Postponed,
    Released,
    Retry,
    SetAside,
)
from pyrula.policies.stamp import Stamp, gate_id
from pyrula.store.shard import hold, rows
from pyrula.store.shard.finish import End, finish_all, kept, taken
from pyrula.store.shard.record import append_all
from pyrula.store.shard.settle import NEWS, settle, wake
from pyrula.store.shard.submit import START
from pyrula.store.shard.tx import Row, Tx

CANCEL = 2
"""Bit of leases.signal: the run is to be cancelled."""


class Held(NamedTuple):
    """A lease that was live when its outcome came in."""

    seq: int
    claimed_at: int
    slots: bytes
    held: int
    signal: int


def hand_in(
    tx: Tx, incarnation: str, worker_id: str, outcomes: Sequence[tuple[Lease, Outcome]]
) -> tuple[tuple[Lease, ...], Counter[bytes]]:
    """Take outcomes in; answers the leases that were lost, whose outcomes changed nothing, and the slots that the
    turn is to give back, by gate.
    """
    if not outcomes:
        return (), Counter()
    held = _take_leases(tx, incarnation, [lease for lease, _ in outcomes])
    live = [(held[lease.seq], outcome) for lease, outcome in outcomes if lease.seq in held]
    freed: Counter[bytes] = Counter()
    going_on: dict[type[Outcome], list[tuple[Held, Any]]] = {}
    for lease, outcome in live:
        if type(outcome) in _GO_ON and not lease.signal & CANCEL:
            going_on.setdefault(type(outcome), []).append((lease, outcome))
    for kind, some in going_on.items():
        freed += leave(tx, [lease for lease, _ in some], ended=False)
        _GO_ON[kind](tx, some)
    # After those that park: an end wakes the parent that parks in this very turn, which has no lease to be told by.
    ended = [(lease, end) for lease, outcome in live if (end := _end(lease, outcome, worker_id)) is not None]
    freed += leave(tx, [lease for lease, _ in ended], ended=True)
    finish_all(tx, sorted([end for _, end in ended], key=itemgetter(0)))
    return tuple(lease for lease, _ in outcomes if lease.seq not in held), freed


def leave(tx: Tx, leases: Sequence[Held], *, ended: bool) -> Counter[bytes]:
    """Have runs whose leases are gone leave their slots, but for those that one which goes on holds while parked.
    Answers the slots to be given back, by gate.
    """
    noted = [lease.seq for lease in leases if lease.held]
    freed: Counter[bytes] = Counter()
    for slots, n in Counter([lease.slots for lease in leases if not lease.held]).items():
        for gate in taken(slots):
            freed[gate] = freed.get(gate, 0) + n
    return freed + kept(tx, noted, ended=ended) if noted else freed


def _take_leases(tx: Tx, incarnation: str, leases: Sequence[Lease]) -> dict[int, Held]:
    asks = sorted([(lease.seq, lease.epoch, incarnation) for lease in leases])  # neighbours lie together
    rows = tx.match("handin.lease", asks)
    tx.many("handin.drop_lease", [(row[0],) for row in rows])
    return {row[0]: Held(*row) for row in rows}


def _end(lease: Held, outcome: Outcome, worker_id: str) -> End | None:
    """How the run ends, or None if it goes on. A run to be cancelled ends however its body took it, unless it
    was done already."""
    claimed = lease.claimed_at
    match outcome:
        case Completed(result=result):
            return lease.seq, "completed", result, None, worker_id, claimed
        case Failed(error=error):
            return (
                lease.seq,
                "cancelled" if lease.signal & CANCEL else "failed",
                None,
                error,
                worker_id,
                claimed,
            )
        case Cancelled():
            return lease.seq, "cancelled", None, None, worker_id, claimed
        case _ if lease.signal & CANCEL:
            return lease.seq, "cancelled", None, None, worker_id, claimed
        case _:
            return None


def _parked(tx: Tx, runs: Sequence[tuple[Held, Parked]]) -> None:
    _unseat(tx, [lease for lease, _ in runs], "wait")
    append_all(tx, [(lease.seq, entry) for lease, outcome in runs for entry in outcome.entries])
    tx.many("deadlock.suspect", [(lease.seq,) for lease, _ in runs if lease.held])
    settle(tx, [lease.seq for lease, _ in runs])
    # those of which a wait was settled that the body had not heard of when it parked
    wake(tx, [lease.seq for lease, _ in runs if lease.signal & NEWS])


def _retry(tx: Tx, runs: Sequence[tuple[Held, Retry]]) -> None:
    _unseat(tx, [lease for lease, _ in runs], "retry")
    dropped = [(lease.seq, *place) for lease, outcome in runs for place in outcome.drop]
    tx.many("handin.drop_entry", dropped)
    tx.many("handin.attempt", [(lease.seq, outcome.error) for lease, outcome in runs])
    tx.many("submit.timer", [(tx.now + outcome.delay, lease.seq, START) for lease, outcome in runs])


def _postponed(tx: Tx, runs: Sequence[tuple[Held, Postponed]]) -> None:
    """Close the gate for its key; the run waits at it, at the place of its submission."""
    for lease, outcome in runs:
        until = tx.now + outcome.delay
        found = _gate_to_close(tx, lease.seq, outcome.gate)
        if found is not None:
            row, queued_at = found
            tx.run("admit.open_gate", *row, 0)  # it may have been swept since the run passed it
            tx.run("sweep.unused_gate", row[0], tx.now)
            tx.many("handin.close_gate", [(gate, until, lease.seq) for gate in {row[0], queued_at}])
            requeue(tx, [lease], resumed=False)
        else:
            _unseat(tx, [lease], "later")
            tx.run("submit.timer", until, lease.seq, START)


def _gate_to_close(tx: Tx, seq: int, name: str | None) -> tuple[Row, bytes] | None:
    """The run's gate of that name; by default its first rate gate, else its first limit gate: (id, name, key, kind).
    And the id of the one for which it queues: where it holds a slot of that gate, or shares one, the slot gate.
    """
    row = tx.row("handin.stamp", seq)
    assert row is not None
    stamp, keys = Stamp.decode(row[0]), msgspec.json.decode(row[1], type=list[str])
    wanted = (
        [at for at, gate in enumerate(stamp.gates) if gate.name == name]
        if name is not None
        else [at for kind in ("rate", "limit") for at, gate in enumerate(stamp.gates) if gate.kind == kind]
    )
    if not wanted:
        return None
    at = wanted[0]
    gate = stamp.gates[at]
    row = gate_id(gate.name, gate.kind, keys[at]), gate.name, keys[at], rows.KINDS.index(gate.kind)
    return row, hold.plan_of_run(tx, seq).gates[at]


def _released(tx: Tx, runs: Sequence[tuple[Held, Released]]) -> None:
    requeue(tx, [lease for lease, _ in runs], resumed=True)


def _set_aside(tx: Tx, runs: Sequence[tuple[Held, SetAside]]) -> None:
    _unseat(tx, [lease for lease, _ in runs], "aside")
    tx.many("handin.aside", [(lease.seq, outcome.reason, outcome.code) for lease, outcome in runs])


def requeue(tx: Tx, leases: Sequence[Held], *, resumed: bool) -> None:
    """Back to their lanes at once: resumed, at no cost, or fresh, which takes a token. They have left their slots."""
    _unseat(tx, leases, None)
    put_back(tx, [lease.seq for lease in leases], resumed=resumed)


def put_back(tx: Tx, seqs: Sequence[int], *, resumed: bool) -> None:
    """Queue runs that are in no queue in their own lanes, and ring."""
    lanes = tx.match("handin.queue", [(seq, int(resumed)) for seq in seqs])
    tx.many("submit.bell", list({(lane,) for (lane,) in lanes}))


def _unseat(tx: Tx, leases: Sequence[Held], parked: str | None) -> None:
    """The runs go on later."""
    tx.many("handin.unseat", [(lease.seq, parked, lease.claimed_at) for lease in leases])


_GO_ON: dict[type[Outcome], Callable[[Tx, Sequence[tuple[Held, Any]]], None]] = {
    Parked: _parked,
    Retry: _retry,
    Postponed: _postponed,
    Released: _released,
    SetAside: _set_aside,
}
