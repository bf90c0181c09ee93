"""Record: append to the log of a run that executes. Every write shows its lease."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import structs

from pyrula.errors import LeaseLost
from pyrula.model.lease import Lease
from pyrula.model.step import Entry
from pyrula.store.shard.settle import match_waits
from pyrula.store.shard.tx import Tx

Ask = tuple[str, Lease, Sequence[Entry]]
"""Incarnation, lease, and what is to be appended under it."""


def record(tx: Tx, incarnation: str, lease: Lease, entries: Sequence[Entry]) -> list[Entry]:
    """Append entries; answers them as they stand now: a wait may be over at once. Raises `LeaseLost`."""
    if tx.row("record.lease", lease.seq, lease.epoch, incarnation) is None:
        raise _lost(lease)
    written = append(tx, lease.seq, entries)
    if any(entry.status == "waiting" for entry in written):
        settled = {
            (entry.branch, entry.number): entry for entry in match_waits(tx, [lease.seq]).get(lease.seq, ())
        }
        written = [settled.pop((entry.branch, entry.number), entry) for entry in written]
        if settled:  # waits recorded before were over too: their branches learn it from the log
            tx.run("settle.signal", lease.seq, 1)
    return written


def record_all(tx: Tx, asks: Sequence[Ask]) -> list[list[Entry] | LeaseLost]:
    """`record` for many runs at once, of entries that wait for nothing; answers a lost lease in its place."""
    shown = list({(lease.seq, lease.epoch, incarnation) for incarnation, lease, _ in asks})
    live = set(tx.match("record.lease", shown))
    kept = [
        (lease, entries)
        for incarnation, lease, entries in asks
        if (lease.seq, lease.epoch, incarnation) in live
    ]
    there = append_all(tx, [(lease.seq, entry) for lease, entries in kept for entry in entries])
    return [
        [there[lease.seq, entry.branch, entry.number] for entry in entries]
        if (lease.seq, lease.epoch, incarnation) in live
        else _lost(lease)
        for incarnation, lease, entries in asks
    ]


def append(tx: Tx, seq: int, entries: Sequence[Entry]) -> list[Entry]:
    """Append entries, numbering the settled ones; answers what the log holds for each.

    What is in the log stays: an entry written twice (its first answer was lost) answers what was written
    first.
    """
    there = append_all(tx, [(seq, entry) for entry in entries])
    return [there[seq, entry.branch, entry.number] for entry in entries]


def append_all(tx: Tx, entries: Sequence[tuple[int, Entry]]) -> dict[tuple[int, str, int], Entry]:
    """The same for several runs: (seq, entry). Answers what the log holds, by (seq, branch, number)."""
    if not entries:
        return {}
    places = [(seq, entry.branch, entry.number) for seq, entry in entries]
    there = {(seq, entry[0], entry[1]): Entry(*entry) for seq, *entry in tx.match("record.existing", places)}
    fresh = {
        place: (seq, entry) for place, (seq, entry) in zip(places, entries, strict=True) if place not in there
    }
    numbers = Counter(seq for seq, entry in fresh.values() if entry.status != "waiting")
    last: dict[int, int] = dict(tx.match("settle.count", list(numbers.items()))) if numbers else {}
    order = {seq: last[seq] - number for seq, number in numbers.items()}
    rows = []
    for place, (seq, entry) in fresh.items():
        at = 0
        if entry.status != "waiting":
            at = order[seq] = order[seq] + 1
        there[place] = structs.replace(entry, order=at)
        rows.append((seq, *_fields(entry)[:7], at, tx.now))
    tx.many("record.entry", rows)
    return there


def _lost(lease: Lease) -> LeaseLost:
    return LeaseLost(
        f"run {lease.seq} of shard {lease.shard}: this worker's lease (epoch {lease.epoch}) is over, so "
        "nothing was recorded; another worker goes on with the run, let this body stop"
    )


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
