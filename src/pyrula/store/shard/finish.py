"""Finish: the only way a run ends. Frees what it held and wakes who waited for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyrula.store.shard import hold
from pyrula.store.shard.settle import settle_parents
from pyrula.store.shard.tx import Tx

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
    children = [run_id for run_id, parent in rows if parent is not None]
    if children:
        settle_parents(tx, children)


def give_back(tx: Tx, seqs: Iterable[int], *, ended: bool) -> None:
    """Give back the slots of runs: all of them when they ended, else those not held while parked."""
    slots = tx.match("finish.slots", [(seq,) for seq in seqs])
    holders = {seq for _, seq, held in slots if held}
    if ended:
        for seq in holders:
            hold.on_finish(tx, seq)
        slots = [slot for slot in slots if slot[1] not in holders]
    going = [(gate, seq) for gate, seq, held in slots if not held]
    tx.many("finish.leave", going)
    tx.many("finish.free", [(gate,) for gate, _ in going])
