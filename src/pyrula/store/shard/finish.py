"""Finish: the only way a run ends. Frees what it held and wakes who waited for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pyrula.store.shard import family, hold
from pyrula.store.shard.settle import settle_parents
from pyrula.store.shard.tx import Tx

_ID = 16
"""Bytes of a gate's id."""

End = tuple[int, str, bytes | None, bytes | None, str | None, int | None]
"""seq, final state, result, error, worker id, claimed at (None if it was not executing)"""


def finish(tx: Tx, seq: int, state: str, result: bytes | None = None, error: bytes | None = None) -> None:
    """End one run that nobody executes."""
    give_back(tx, [seq], ended=True)
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


def leave(tx: Tx, runs: Sequence[tuple[int, bytes]]) -> None:
    """Give back what runs (seq, gates) took a slot of with their leases, where they keep none while parked."""
    tx.many("finish.leave_run", [(seq,) for seq, _ in runs])
    freed = Counter(gates[at : at + _ID] for _, gates in runs for at in range(0, len(gates), _ID))
    tx.many("finish.free", list(freed.items()))


def give_back(tx: Tx, seqs: Iterable[int], *, ended: bool) -> None:
    """Give back the slots of runs: all of them when they ended, else those not held while parked."""
    rows = [(seq,) for seq in seqs]
    if ended:
        for (seq,) in set(tx.match("finish.holders", rows)):
            hold.on_finish(tx, seq)
    freed = Counter(gate for (gate,) in tx.match("finish.leave_all", rows))
    tx.many("finish.free", list(freed.items()))
