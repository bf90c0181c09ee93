"""Pages: what an operator looks at, a page at a time. Whole-shard figures are bounded, and say so where they are."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from pyrula.model.gate import FOREVER
from pyrula.store.protocol import Gate
from pyrula.store.shard import reads
from pyrula.store.shard.counters import Counter, numbers, shown, told
from pyrula.store.shard.inside import inside, members
from pyrula.store.shard.instants import instant, wall_instant
from pyrula.store.shard.overrides import Overrides
from pyrula.store.shard.tx import Row, Tx

MOST: Final = 1_000_000
"""Queued runs that are counted; more of them is shown as this many and more."""
MINUTE: Final = 60_000_000
_SHOWN: Final = 4096
_decode = msgspec.json.Decoder().decode


def gate_page(tx: Tx, name: str | None, search: str | None, sort: str, limit: int, offset: int) -> list[Gate]:
    """Gates by name and key (sort `name`), by queued runs that they hold back (`queued`) or slots taken (`busy`).

    queued: runs that wait here, of each lane up to 1,000.
    """
    if search and "\0" in search:
        return []  # no key is kept with one, and not every store can be asked
    if sort == "name" and not search:
        rows = tx.rows("pages.gates_by_name", name, limit, offset)
    else:
        rows = tx.rows("pages.gates", name, search.lower() if search else None, sort, limit, offset)
    return _gates(tx, rows)


def gate(tx: Tx, name: str, key: str) -> Gate | None:
    """One key's counter; of two kinds under one name, the one that more runs wait at."""
    found = _gates(tx, tx.rows("pages.gate", name, key))
    return max(found, key=lambda each: each.queued, default=None)


def _gates(tx: Tx, rows: list[Row]) -> list[Gate]:
    counters = [(Counter.of_row(row[:-1]), row[-1]) for row in rows]
    overrides, stamped = Overrides.load(tx), numbers(tx, counters)
    return [shown(tx, gate, queued, overrides, stamped.get(gate.id)) for gate, queued in counters]


def line(tx: Tx, name: str, key: str, limit: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Who holds a slot of one key's counter, and who waits there, first in line first."""
    ids = [id for (id,) in tx.rows("pages.ids", name, key)]
    seqs = sorted(seq for some in inside(tx, ids).values() for seq in some)[:limit]
    runs = members(tx, seqs)
    return [_member(*runs[seq]) for seq in seqs], [
        _member(*row) for row in tx.rows("pages.waiters", name, key, limit)
    ]


def _member(run_id: str, workflow: str, priority: int, _: int, wall_submitted: int) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "workflow": workflow,
        "priority": priority,
        "submitted_at": wall_instant(wall_submitted),
    }


def overview(tx: Tx) -> dict[str, Any]:
    """What runs, what waits, and for what.

    queued: up to MOST. waiting: by workflow and gate, how many runs of how many keys (up to 1,000 runs of each lane),
    since when the first of them; ready: by workflow, runs that no gate holds back; not_looked_at: queued runs that no
    turn of a worker has looked at.
    """
    executing: dict[str, int] = dict(tx.rows("pages.executing"))
    queued = tx.rows("pages.queued", MOST)[0][0]
    waiting = [_waiting(tx, *row) for row in tx.rows("pages.waiting")]
    ready = [
        {"workflow": workflow, "runs": runs, "since": _submitted(tx, head)}
        for workflow, _, runs, head in tx.rows("pages.ready")
    ]
    looked_at = sum(each["runs"] for each in waiting) + sum(each["runs"] for each in ready)
    served = {name for (serves,) in tx.rows("pages.served", tx.now) for name in _decode(serves)}
    return {
        "executing": executing,
        "queued": queued,
        "queued_is_more": queued >= MOST,
        "parked": dict(tx.rows("pages.parked")),
        "waiting": waiting,
        "ready": ready,
        "not_looked_at": max(0, queued - looked_at) if looked_at < MOST else 0,
        "buffers": [
            {"workflow": workflow, "buffers": count, "events": events, "next_due_at": instant(tx, due)}
            for workflow, count, events, due in tx.rows("pages.buffered")
        ],
        "served": sorted(served),
        "live_workers": len(tx.rows("why.workers", tx.now)),
    }


def _waiting(
    tx: Tx, workflow: str, gate_name: str, kind: int, _: int, keys: int, runs: int, head: int
) -> dict[str, Any]:
    return {
        "workflow": workflow,
        "gate": gate_name if kind < 2 else "",
        "kind": ("limit", "rate", "slot")[kind],
        "keys": keys,
        "runs": runs,
        "since": _submitted(tx, head),
    }


def _submitted(tx: Tx, seq: int) -> datetime | None:
    row = tx.row("pages.submitted_at", seq)
    return None if row is None else wall_instant(row[1])


def finished(tx: Tx, minute: int) -> tuple[int, int]:
    """Runs that ended within a minute of the wall clock (its number since 1970), and how many of them otherwise than
    completed."""
    start = minute * MINUTE - (tx.wall - tx.now)
    ended = tx.rows("pages.finished", start, start + MINUTE)[0][0]
    return ended, tx.rows("pages.ended_otherwise", start, start + MINUTE)[0][0] if ended else 0


def buffer_page(
    tx: Tx, workflow: str | None, search: str | None, limit: int, offset: int
) -> list[dict[str, Any]]:
    """Buffers with events in them, the one due first first."""
    if search and "\0" in search:
        return []
    rows = tx.rows("pages.buffers", workflow, search.lower() if search else None, limit, offset)
    return [_with_kind(reads.buffer(tx, row)) for row in rows]


def _with_kind(buffer: dict[str, Any]) -> dict[str, Any]:
    policy = buffer.pop("policy")
    return {**buffer, "kind": policy["kind"], "max_events": policy.get("max_events")}


def steps(tx: Tx, run_id: str, limit: int) -> list[dict[str, Any]]:
    """A run's log in the order in which it was written. at: when it was recorded, of a wait when it was settled.
    value: what came of it, or its size where that is large."""
    return [
        {
            "branch": branch,
            "number": number,
            "kind": kind,
            "name": name,
            "status": status,
            **_value(kind, status, value),
            "due_at": instant(tx, due) if due is not None else None,
            "order": order,
            "at": wall_instant(wall_submitted + at - submitted),
        }
        for branch, number, kind, name, status, value, due, order, at, submitted, wall_submitted in tx.rows(
            "pages.steps", run_id, limit
        )
    ]


def _value(kind: str, status: str, value: bytes | None) -> dict[str, Any]:
    if value is None:
        return {"value": None}
    if kind == "child" and status == "waiting":
        return {"value": None, "run_id": bytes(value).decode(errors="replace")}
    if len(value) > _SHOWN:
        return {"value": None, "bytes": len(value)}
    return {"value": _decode(value)}


def children(tx: Tx, run_id: str, limit: int) -> list[dict[str, Any]]:
    """The runs that a run submitted, in that order."""

    def at(time: int | None, submitted: int, wall: int) -> datetime | None:
        return None if time is None else wall_instant(wall + time - submitted)

    return [
        {
            "run_id": child,
            "workflow": workflow,
            "state": state,
            "submitted_at": wall_instant(wall),
            "started_at": at(started, submitted, wall),
            "finished_at": at(finished_at, submitted, wall),
        }
        for child, workflow, state, submitted, wall, started, finished_at in tx.rows(
            "pages.children", run_id, limit
        )
    ]


def parent(tx: Tx, run_id: str) -> str | None:
    """The run that submitted this one, if one did."""
    row = tx.row("pages.parent", run_id)
    return None if row is None else row[0]


def overrides(tx: Tx) -> list[dict[str, Any]]:
    """Overrides and pauses in force. key: null for all of the gate; a pause that is `open` is an exception to one."""
    found = []
    for gate_name, every, key, kind, number, expires_at in tx.rows("pages.overrides", tx.now):
        value = _decode(number)
        held = {
            "gate": gate_name,
            "key": None if every else key,
            "kind": kind,
            "expires_at": instant(tx, expires_at),
        }
        if kind == "pause":
            held["open"] = value == 0
            value = value if value else FOREVER
        found.append(held | told(tx, kind, value))
    return found


def workflows(tx: Tx) -> list[dict[str, Any]]:
    """What workers have registered, the newest declaration of each. served: by a worker that is alive."""
    served = {name for (serves,) in tx.rows("pages.served", tx.now) for name in _decode(serves)}
    return [
        {
            "workflow": workflow,
            "served": workflow in served,
            "registered_at": instant(tx, at),
            "declaration": _decode(declaration),
        }
        for workflow, declaration, _, at in tx.rows("pages.definitions")
    ]
