"""Finish: the only way a run ends. Frees what it held and wakes who waited for it.

A run that executes has a slot of each gate that its lease names. Only where slots outlast a lease, or are shared by
a family (`hold="run"`), are they noted one by one as well: then the notes say whose they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pyrula.store.shard import family, hold
from pyrula.store.shard.settle import settle_parents
from pyrula.store.shard.tx import Tx

_ID = 16
"""Bytes of a gate's id."""

End = tuple[int, str, bytes | None, bytes | None, str | None, int | None]
"""seq, final state, result, error, worker id, claimed at (None if it was not executing)"""


def finish(tx: Tx, seq: int, state: str, result: bytes | None = None, error: bytes | None = None) -> None:
    """End one run that nobody executes."""
    free(tx, kept(tx, [seq], ended=True))
    finish_all(tx, [(seq, state, result, error, None, None)])


def finish_all(tx: Tx, ends: Sequence[End]) -> None:
    """End runs whose leases are gone: their slots go back, their parents go on."""
    if not ends:
        return
    rows = tx.match("finish.run", [(*end, tx.now) for end in ends])
    children = {run_id: parent for run_id, parent in rows if parent is not None}
    if children:
        for child in settle_parents(tx, children):
            del children[child]
        if children:  # nobody waits, or a parent elsewhere
            family.tell_parents(tx, children)


def taken(slots: bytes) -> list[bytes]:
    """The gates that a lease names, of each of which its run has a slot."""
    if len(slots) == _ID:
        return [slots]
    return [slots[at : at + _ID] for at in range(0, len(slots), _ID)]


def kept(tx: Tx, seqs: Iterable[int], *, ended: bool) -> Counter[bytes]:
    """Have runs leave the slots that are noted as theirs: all of them when they ended, else those not held while
    parked. Answers the slots to be given back, by gate.
    """
    rows = [(seq,) for seq in seqs]
    if ended:
        for (seq,) in set(tx.match("finish.holders", rows)):
            hold.on_finish(tx, seq)
    return Counter(gate for (gate,) in tx.match("finish.leave_all", rows))


def free(tx: Tx, slots: Mapping[bytes, int]) -> None:
    """Give slots back, by gate, outside of a turn's admission."""
    tx.many("finish.free", list(slots.items()))
