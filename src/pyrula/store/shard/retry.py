"""Retry, by hand: a run that ended without a result gets another attempt, through its gates like any
other.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrula.model.step import Entry, call_of, pauses
from pyrula.store.shard import hold
from pyrula.store.shard.record import read_log
from pyrula.store.shard.settle import child_name
from pyrula.store.shard.tx import Tx

AGAIN = frozenset({"failed", "cancelled", "expired"})


def retry(tx: Tx, run_ids: Sequence[str]) -> list[str]:
    """Take runs up again; answers each one's state before ("" if unknown).

    Failed, cancelled and expired ones start another attempt under their stamp: they keep their log but for
    the step that failed, wait in line at the place of their submission, and take a token. One that backs off
    does so at once, one that was set aside goes on with its replay. Nothing happens to the others.
    """
    rows = tx.match("retry.runs", [(run_id,) for run_id in dict.fromkeys(run_ids)])
    before = {row[0]: str(row[2]) for row in rows}
    for _, seq, state, parked in rows:
        if state in AGAIN:
            _start_again(tx, seq)
        elif parked == "retry":
            tx.run("cancel.timers", seq)
            _queue(tx, seq, resumed=False)
        elif parked == "aside":
            _queue(tx, seq, resumed=True)
    return [before.get(run_id, "") for run_id in run_ids]


def _start_again(tx: Tx, seq: int) -> None:
    log = read_log(tx, seq)
    tx.many(
        "handin.drop_entry", [(seq, branch, number) for branch, number in to_drop(log, _ended_badly(tx, log))]
    )
    tx.run("cancel.timers", seq)  # those of its waits are set anew when it parks again; an expiry is over
    tx.run("cancel.wall_timers", seq)
    tx.run("retry.reopen", seq, hold.lane_of_run(tx, seq))
    _queue(tx, seq, resumed=False)


def _queue(tx: Tx, seq: int, *, resumed: bool) -> None:
    tx.run("retry.unpark", seq)
    lanes = tx.match("handin.queue", [(seq, int(resumed))])
    tx.many("submit.bell", lanes)


def _ended_badly(tx: Tx, log: Sequence[Entry]) -> frozenset[str]:
    """Those of the children it still waits for that ended without a result."""
    children = [
        (child_name(entry.value),) for entry in log if entry.kind == "child" and entry.status == "waiting"
    ]
    return frozenset(row[0] for row in tx.match("settle.children", children) if row[1] in AGAIN)


def to_drop(log: Sequence[Entry], ended_badly: frozenset[str] = frozenset()) -> list[tuple[str, int]]:
    """(branch, number) of what failed and was the last its branch did: so it is what the body ended with. With the
    pauses between its tries: a step that is made anew has all of them again.

    An error after which the body went on was handled there; dropping it would have the replay go another way
    than the log. `log` is one run's; a wait for a child in `ended_badly` counts as an error.
    """
    bad = [
        entry
        for entry in log
        if entry.status in ("error", "timeout")
        or (entry.kind == "child" and entry.status == "waiting" and child_name(entry.value) in ended_badly)
    ]
    dropped = [
        (entry.branch, entry.number) for entry in bad if not any(_went_on(entry, other) for other in log)
    ]
    pausing = {pauses(key) for key in dropped}
    return dropped + [(entry.branch, entry.number) for entry in log if entry.branch in pausing]


def _went_on(failed: Entry, other: Entry) -> bool:
    """`other` is there because the code that awaited `failed` did not end with it."""
    branch, number = call_of(other.branch, other.number)
    if branch == failed.branch:
        return number > failed.number
    encloses = branch == "" or failed.branch.startswith(f"{branch}.")
    return encloses and failed.order > 0 and other.order > failed.order
