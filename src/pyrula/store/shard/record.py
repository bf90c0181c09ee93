"""Record: append to the log of a run that executes. Every write shows its lease."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from pyrula.errors import LeaseLost
from pyrula.model.lease import Lease
from pyrula.model.step import Entry
from pyrula.store.shard.settle import match_waits
from pyrula.store.shard.tx import Tx


def record(tx: Tx, incarnation: str, lease: Lease, entries: Sequence[Entry]) -> list[Entry]:
    """Append entries; answers them as they stand now: a wait may be over at once. Raises `LeaseLost`."""
    if tx.row("record.lease", lease.seq, lease.epoch, incarnation) is None:
        raise LeaseLost(
            f"run {lease.seq} of shard {lease.shard}: this worker's lease (epoch {lease.epoch}) is over, so "
            "nothing was recorded; another worker goes on with the run, let this body stop"
        )
    written = append(tx, lease.seq, entries)
    if any(entry.status == "waiting" for entry in written):
        settled = {
            (entry.branch, entry.number): entry for entry in match_waits(tx, [lease.seq]).get(lease.seq, ())
        }
        written = [settled.pop((entry.branch, entry.number), entry) for entry in written]
        if settled:  # waits recorded before were over too: their branches learn it from the log
            tx.run("settle.signal", lease.seq, 1)
    return written


def append(tx: Tx, seq: int, entries: Sequence[Entry]) -> list[Entry]:
    """Append entries, numbering the settled ones; answers what the log holds for each.

    What is in the log stays: an entry written twice (its first answer was lost) answers what was written
    first.
    """
    if not entries:
        return []
    there = {(entry.branch, entry.number): entry for entry in _existing(tx, seq, entries)}
    fresh = [entry for entry in entries if (entry.branch, entry.number) not in there]
    number = sum(entry.status != "waiting" for entry in fresh)
    order = 0
    if number:
        order = tx.match("settle.count", [(seq, number)])[0][1] - number
    rows = []
    for entry in fresh:
        place = 0
        if entry.status != "waiting":
            order += 1
            place = order
        there[entry.branch, entry.number] = structs.replace(entry, order=place)
        rows.append((seq, *_fields(entry)[:7], place, tx.now))
    tx.many("record.entry", rows)
    return [there[entry.branch, entry.number] for entry in entries]


def read_logs(tx: Tx, seqs: Sequence[int]) -> dict[int, list[Entry]]:
    """The logs of several runs, each as `read_log` gives it."""
    logs: dict[int, list[Entry]] = {}
    for seq, *row in tx.match("record.logs", [(seq,) for seq in seqs]):
        logs.setdefault(seq, []).append(Entry(*row))
    for log in logs.values():
        log.sort(key=_place)
    return logs


def _place(entry: Entry) -> tuple[bool, int, str, int]:
    return entry.order == 0, entry.order, entry.branch, entry.number


def read_log(tx: Tx, seq: int) -> list[Entry]:
    """The log of a run: settled entries in their order, then the waiting ones in the order of the body."""
    entries = [Entry(*row) for row in tx.rows("record.log", seq)]
    return sorted(entries, key=_place)


def _existing(tx: Tx, seq: int, entries: Sequence[Entry]) -> list[Entry]:
    rows = tx.match("record.existing", [(seq, entry.branch, entry.number) for entry in entries])
    return [Entry(*row) for row in rows]


def _fields(entry: Entry) -> tuple[object, ...]:
    return (
        entry.branch,
        entry.number,
        entry.kind,
        entry.name,
        entry.status,
        entry.value,
        entry.due,
        entry.order,
    )
