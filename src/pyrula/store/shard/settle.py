"""Settle: give the waits of runs what they wait for, and let those runs go on. An event sent to a run starts
here.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from pyrula.model.step import Entry, Status
from pyrula.store.shard.submit import WAIT
from pyrula.store.shard.tx import Tx

NEWS = 1
"""Bit of leases.signal: a wait of the run was settled, its worker is to read the log."""
_CODES = {"failed": "run_failed", "cancelled": "run_cancelled", "expired": "run_expired"}
_TYPES = {"failed": "RunFailed", "cancelled": "RunCancelled", "expired": "RunExpired"}


class Wait(NamedTuple):
    """A waiting entry. value: of a child's wait, its run id."""

    seq: int
    branch: str
    number: int
    kind: str
    name: str
    value: bytes | None
    due: int | None

    @property
    def place(self) -> tuple[tuple[int, ...], int]:
        """Where it stands in the body: branches in the order of their creation, then by number."""
        return tuple(int(part) for part in self.branch.split(".") if part), self.number


class Ended(NamedTuple):
    """A child that has ended. state: its final state."""

    state: str
    result: bytes | None
    error: bytes | None


class Settled(NamedTuple):
    """What a wait came to. event: id of the one it took."""

    wait: Wait
    status: Status
    value: bytes | None
    event: int | None = None


def settle(tx: Tx, seqs: Sequence[int]) -> None:
    """Settle what can be settled of these runs' waits, wake the runs, and set timers for the waits left
    over.
    """
    settled = match_waits(tx, seqs)
    if settled:
        wake(tx, list(settled))


def settle_parents(tx: Tx, ended: Iterable[str]) -> set[str]:
    """The same for the runs that wait for these children, which have just ended; answers those that somebody
    here waited for.
    """
    children = [(run_id.encode(),) for run_id in ended]
    found = tx.match("settle.parents", children)
    settle(tx, sorted({seq for seq, _ in found}))
    return {child_name(child) for _, child in found}


def wake(tx: Tx, seqs: Sequence[int]) -> None:
    """Parked runs to the resumed queue of their lanes; those that execute are told to read their logs."""
    rows = [(seq,) for seq in seqs]
    woken = tx.match("settle.unpark", rows)
    lanes = tx.match("handin.queue", [(seq, 1) for (seq,) in woken])
    tx.many("submit.bell", list({(lane,) for (lane,) in lanes}))
    tx.many("settle.signal", [(seq, NEWS) for (seq,) in rows])


def send_event(tx: Tx, run_id: str, name: str, payload: bytes, event_id: str | None = None) -> bool:
    """Give a run an event; False if there is no such run, or it has ended. An `event_id` given twice counts
    once.
    """
    row = tx.row("settle.run", run_id)
    if row is None:
        return False
    seq, state = row
    if event_id is not None and tx.row("settle.seen", _scope(run_id), event_id) is not None:
        return True
    if state != "open":
        return False
    if event_id is not None:
        tx.run("settle.remember", _scope(run_id), event_id, seq)
    tx.run("settle.event", seq, name, payload, event_id)
    settle(tx, [seq])
    return True


def _scope(run_id: str) -> str:
    return msgspec.json.encode(["run", run_id]).decode()


def match_waits(tx: Tx, seqs: Sequence[int]) -> dict[int, list[Entry]]:
    """Settle waits without waking anybody; answers, by run, the entries settled now, in their order."""
    waits = [Wait(*row) for row in tx.match("settle.waits", [(seq,) for seq in dict.fromkeys(seqs)])]
    if not waits:
        return {}
    waits.sort(key=lambda wait: (wait.seq, wait.place))
    found = decide(tx.now, waits, _events(tx, waits), _children(tx, waits))
    done = {(one.wait.seq, one.wait.branch, one.wait.number) for one in found}
    open_waits = [wait for wait in waits if wait[:3] not in done and wait.due is not None]
    tx.many("submit.timer", [(wait.due, wait.seq, WAIT) for wait in open_waits])
    return _write(tx, found)


def decide(
    now: int,
    waits: Sequence[Wait],
    events: Mapping[tuple[int, str], Sequence[tuple[int, bytes]]],
    children: Mapping[str, Ended],
) -> list[Settled]:
    """Which of `waits` (in the order of their runs and places) are over, and what each came to.

    The oldest event of a name goes to the first wait for it. An event or a child's end that is there beats a
    time-out that is due, too: what was waited for has come.
    """
    queues = {at: deque(found) for at, found in events.items()}
    settled = []
    for wait in waits:
        late = wait.due is not None and wait.due <= now
        queue = queues.get((wait.seq, wait.name)) if wait.kind == "event" else None
        child = children.get(child_name(wait.value)) if wait.kind == "child" else None
        if queue:
            event, payload = queue.popleft()
            settled.append(Settled(wait, "done", payload, event))
        elif child is not None:
            status, value = child_value(child_name(wait.value), child)
            settled.append(Settled(wait, status, value))
        elif late and wait.kind == "sleep":
            settled.append(Settled(wait, "done", b"null"))
        elif late:
            settled.append(Settled(wait, "timeout", None))
    return settled


def child_name(value: bytes | None) -> str:
    """The run id that the wait for a child is about, which is its value."""
    return (value or b"").decode()


def child_value(run_id: str, child: Ended) -> tuple[Status, bytes]:
    """What its parent's entry says of a child that ended: its result, or what it ended with.

    An error is an `ErrorValue` with two fields more: the child's `run_id` and its own `error`.
    """
    if child.state == "completed":
        return "done", child.result if child.result is not None else b"null"
    own = None if child.error is None else msgspec.json.decode(child.error)
    what = f"{own.get('type')}: {own.get('message')}" if isinstance(own, dict) else child.state
    return "error", msgspec.json.encode(
        {
            "type": _TYPES[child.state],
            "message": f"child run {run_id} {child.state}" + ("" if own is None else f" with {what}"),
            "code": _CODES[child.state],
            "run_id": run_id,
            "error": own,
        }
    )


def _events(tx: Tx, waits: Sequence[Wait]) -> dict[tuple[int, str], list[tuple[int, bytes]]]:
    wanted: dict[tuple[int, str], int] = defaultdict(int)
    for wait in waits:
        if wait.kind == "event":
            wanted[wait.seq, wait.name] += 1
    found = defaultdict(list)
    for event, seq, name, payload in sorted(
        tx.match("settle.events", [(*at, n) for at, n in wanted.items()])
    ):
        found[seq, name].append((event, payload))
    return found


def _children(tx: Tx, waits: Sequence[Wait]) -> dict[str, Ended]:
    wanted = dict.fromkeys(child_name(wait.value) for wait in waits if wait.kind == "child")
    rows = tx.match("settle.children", [(run_id,) for run_id in wanted])
    ended = {run_id: Ended(*end) for run_id, *end in rows if end[0] != "open"}
    missing = wanted.keys() - {row[0] for row in rows}
    if missing:  # they may be elsewhere, and their shards tell of their ends
        away = tx.match("family.ends", [(run_id,) for run_id in missing])
        ended.update({run_id: Ended(*end) for run_id, *end in away if end[0] is not None})
        missing -= {row[0] for row in away}
    if missing:
        gone = {"type": "RunNotFound", "message": "its record is not kept any more", "code": "run_not_found"}
        ended.update({run_id: Ended("failed", None, msgspec.json.encode(gone)) for run_id in missing})
    return ended


def _write(tx: Tx, found: Sequence[Settled]) -> dict[int, list[Entry]]:
    """Number what was settled after what each run's log holds already, and write it."""
    counts: dict[int, int] = defaultdict(int)
    for one in found:
        counts[one.wait.seq] += 1
    last: dict[int, int] = dict(tx.match("settle.count", list(counts.items())))
    entries: dict[int, list[Entry]] = defaultdict(list)
    for wait, status, value, _ in found:
        order = last[wait.seq] - counts[wait.seq] + len(entries[wait.seq]) + 1
        entry = Entry(wait.branch, wait.number, wait.kind, wait.name, status, value, wait.due, order)  # type: ignore[arg-type]  # the kind comes out of the log, where an Entry was put in
        entries[wait.seq].append(entry)
    tx.many(
        "settle.entry",
        [
            (seq, entry.branch, entry.number, entry.status, entry.value, entry.order, tx.now)
            for seq, some in entries.items()
            for entry in some
        ],
    )
    tx.many("settle.take", [(one.event,) for one in found if one.event is not None])
    return dict(entries)
