"""Cancel: end runs that wait, ask those that execute to stop, and the same for their children."""

from __future__ import annotations

from collections.abc import Sequence

from pyrula.store.shard import family
from pyrula.store.shard.finish import finish_all, free, kept
from pyrula.store.shard.tx import Tx

CANCEL = 2
"""Bit of leases.signal: the run is to be cancelled. Its slot goes back when its body has stopped, not before.
"""


def cancel(tx: Tx, run_ids: Sequence[str]) -> list[str]:
    """Ask for the cancellation of runs and of their children; answers each one's state before ("" if
    unknown).
    """
    rows = tx.match("cancel.runs", [(run_id,) for run_id in dict.fromkeys(run_ids)])
    before = {row[0]: str(row[-1]) for row in rows}
    _cancel_family(tx, [(run_id, seq, lane, state) for run_id, seq, lane, state in rows])
    return [before.get(run_id, "") for run_id in run_ids]


def _cancel_family(tx: Tx, members: Sequence[tuple[str, int, bytes, str]]) -> None:
    """Generation by generation: a parent is over before its children end, so no child's end wakes it up."""
    seen: set[str] = set()
    generation = [row for row in members if row[3] in ("queued", "parked", "executing")]
    while generation:
        seen.update(row[0] for row in generation)
        _cancel(tx, generation)
        family.cancel_away(tx, [row[0] for row in generation])
        children = tx.match("cancel.children", [(row[0],) for row in generation])
        generation = [row for row in children if row[0] not in seen]


def _cancel(tx: Tx, runs: Sequence[tuple[str, int, bytes, str]]) -> None:
    tx.many("settle.signal", [(seq, CANCEL) for _, seq, _, state in runs if state == "executing"])
    idle = [(lane, seq) for _, seq, lane, state in runs if state != "executing"]
    unqueue(tx, idle)
    free(tx, kept(tx, [seq for _, seq in idle], ended=True))  # what hold="run" kept while they waited
    finish_all(tx, [(seq, "cancelled", None, None, None, None) for _, seq in idle])
    drop_timers(tx, [seq for _, seq in idle])


def unqueue(tx: Tx, rows: Sequence[tuple[bytes, int]]) -> None:
    """Take runs (lane, seq) out of their lanes; a lane that lost one is looked at again."""
    lanes = tx.match("cancel.unqueue", rows)
    tx.many("submit.bell", list({(lane,) for (lane,) in lanes}))


def drop_timers(tx: Tx, seqs: Sequence[int]) -> None:
    """Forget what was due for runs that have ended."""
    tx.many("cancel.timers", [(seq,) for seq in seqs])
    tx.many("cancel.wall_timers", [(seq,) for seq in seqs])
