"""Reads: what users and operators see. They look at one snapshot, lock nothing and are bounded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from pyrula.errors import InvalidPayload, shown
from pyrula.model.gate import FOREVER
from pyrula.model.run import Run
from pyrula.model.step import Entry
from pyrula.policies.stamp import Stamp, Stamped
from pyrula.store.shard.counters import gates
from pyrula.store.shard.fire import told_text
from pyrula.store.shard.instants import instant, wall_instant
from pyrula.store.shard.limiter_config import expected, is_pending
from pyrula.store.shard.record import read_log
from pyrula.store.shard.schedule import told as schedule_told
from pyrula.store.shard.tx import Row, Tx

__all__ = ["buffers", "gates", "get", "log", "open_runs", "results", "runs", "schedules", "workers"]

_SCAN: Final = 2000
_SCANS: Final = 10
_LONGEST_CURSOR: Final = 18
_MOST: Final = 1000
OPEN: Final = ("open", None)
"""What is answered of every run that has not ended."""
_decode = msgspec.json.Decoder().decode


def get(tx: Tx, run_id: str) -> Run | None:
    """A run as it stands."""
    row = tx.row("reads.seq", run_id)
    return None if row is None else _runs(tx, [row[0]])[0]


def results(tx: Tx, run_ids: Sequence[str]) -> list[tuple[str, bytes | None] | None]:
    """Per id: (state, JSON of its result or error), the state being "open" until it has ended; None: not there."""
    found: dict[str, tuple[str, bytes | None] | None] = {
        run_id: None if state is None else (state, result if state == "completed" else error)
        for run_id, state, result, error in tx.match("reads.not_open", [(run_id,) for run_id in run_ids])
    }
    return [found.get(run_id, OPEN) for run_id in run_ids]


def open_runs(tx: Tx, workflow: str, unit_key: str, limit: int) -> list[str]:
    """The ids of those of a unit's newest `limit` runs that have not ended, the newest first."""
    return [run_id for (run_id,) in tx.rows("reads.open_of_key", workflow, unit_key, limit)]


def runs(
    tx: Tx, workflow: str | None, state: str | None, key: str | None, limit: int, cursor: str | None
) -> tuple[list[Run], str | None]:
    """Runs, newest first, and a cursor for those before them; None when there are no more.

    A page looks at no more than 20,000 runs: one that filters many out may be short, with a cursor to go on
    with.
    """
    found, following = numbered(tx, workflow, state, key, limit, cursor)
    return [run for _, run in found], following


def is_cursor(text: str) -> bool:
    """Whether `text` is a run's number, as a page of one shard names its end."""
    return text.isascii() and text.isdecimal() and len(text) <= _LONGEST_CURSOR


def numbered(
    tx: Tx, workflow: str | None, state: str | None, key: str | None, limit: int, cursor: str | None
) -> tuple[list[tuple[int, Run]], str | None]:
    """The same with each run's number, which as a cursor leads to the runs before it."""
    if cursor and not is_cursor(cursor):
        raise InvalidPayload(
            f"runs: cursor is {shown(cursor)}, of a store of several shards; take it from the page before"
        )
    before = int(cursor) if cursor else FOREVER
    found: list[int] = []
    for _ in range(_SCANS):
        page = _scan(tx, workflow, state, key, before)
        for seq, its_workflow, its_key, its_state in page:
            before = seq
            if state in (None, its_state) and workflow in (None, its_workflow) and key in (None, its_key):
                found.append(seq)
                if len(found) == limit:
                    return _with_numbers(tx, found), str(seq)
        if len(page) < _SCAN:
            return _with_numbers(tx, found), None
    return _with_numbers(tx, found), str(before)


def _with_numbers(tx: Tx, seqs: Sequence[int]) -> list[tuple[int, Run]]:
    return list(zip(seqs, _runs(tx, seqs), strict=True))


def _scan(
    tx: Tx, workflow: str | None, state: str | None, key: str | None, before: int
) -> list[tuple[Any, ...]]:
    """The next runs by the index that leaves out most."""
    if state == "executing":
        return tx.rows("reads.executing", before, _SCAN)
    if key:
        return tx.rows("reads.of_key", before, _SCAN, key)
    if state in ("failed", "cancelled", "expired"):
        return tx.rows("reads.unusual", before, _SCAN, state)
    if workflow is not None:
        return tx.rows("reads.of_workflow", before, _SCAN, workflow)
    return tx.rows("reads.all", before, _SCAN)


def _runs(tx: Tx, seqs: Sequence[int]) -> list[Run]:
    """These runs, in this order."""
    rows = {row[0]: row[1:] for row in tx.match("reads.run", [(seq,) for seq in seqs])}
    return [_run(tx, *rows[seq]) for seq in seqs]


def _run(
    tx: Tx,
    run_id: str,
    workflow: str,
    state: str,
    params: bytes,
    result: bytes | None,
    error: bytes | None,
    attempt: int,
    priority: int,
    submitted: int,
    wall_submitted: int,
    started: int | None,
    finished: int | None,
    worker: str | None,
    stamp: bytes,
    keys: str,
) -> Run:
    def at(
        time: int | None,
    ) -> datetime | None:  # from the wall of its submission on, whatever steps that took
        return None if time is None else wall_instant(wall_submitted + time - submitted)

    names = (gate.name for gate in _stamp(stamp).gates)
    return Run(
        run_id=run_id,
        workflow=workflow,
        state=state,  # type: ignore[arg-type]  # the statement answers the seven
        params=_decode(params),
        result=None if result is None else _decode(result),
        error=None if error is None else _decode(error),
        attempt=attempt,
        priority=priority,
        submitted_at=at(submitted),  # type: ignore[arg-type]  # it was on a calendar when it was written down
        started_at=at(started),
        finished_at=at(finished),
        worker_id=worker,
        keys=dict(zip(names, _decode(keys), strict=True)),
    )


@lru_cache(4096)
def _stamp(data: bytes) -> Stamp:
    return Stamp.decode(data)


def log(tx: Tx, run_id: str) -> list[Entry]:
    """A run's log: what was settled, in that order, then what it waits for."""
    row = tx.row("reads.seq", run_id)
    return [] if row is None else read_log(tx, row[0])


def buffers(tx: Tx, workflow: str | None) -> list[dict[str, Any]]:
    """Buffers with events in them, the one due first first; at most 1,000."""
    return [buffer(tx, row) for row in tx.rows("reads.buffers", workflow, _MOST)]


def buffer(tx: Tx, row: Row) -> dict[str, Any]:
    """A buffer as people read it."""
    name, text, count, size, opened_at, due, stamped = row
    return {
        "workflow": name,
        "key": told_text(text),
        "count": count,
        "bytes": size,
        "opened_at": instant(tx, opened_at),
        "due_at": instant(tx, due),
        "policy": _policy(stamped),
    }


def _policy(stamped: bytes) -> dict[str, Any]:
    policy = Stamped.decode(stamped).stamp.trigger
    assert policy is not None, "events are buffered by a trigger's policy"
    kind = {"CollectStamp": "collect", "DebounceStamp": "debounce"}[type(policy).__name__]
    return {"kind": kind, **msgspec.structs.asdict(policy)}


def workers(tx: Tx) -> list[dict[str, Any]]:
    """Workers that are registered, with what they say of themselves. alive: its heartbeat has not lapsed. limiters:
    their configuration, in force or (limiters_pending) about to be.
    """
    rows = tx.rows("reads.workers")
    return [
        {
            "worker_id": worker_id,
            "incarnation": incarnation,
            "serves": _decode(serves),
            "executing": executing,
            "alive": expires_at > tx.now,
            "started_at": instant(tx, started_at),
            "expires_at": instant(tx, expires_at),
            "facts": known,
            "limiters": expected(known, limiters, number),
            "limiters_pending": is_pending(known, number),
        }
        for worker_id, incarnation, serves, started_at, expires_at, facts, limiters, number, executing in rows
        for known in (_decode(facts),)
    ]


def schedules(tx: Tx) -> list[dict[str, Any]]:
    """Schedules in force, with their next ticks; `unserved` where one has come, and waits for a worker that serves the
    workflow."""
    return [
        {
            "workflow": workflow,
            "number": number,
            "schedule": _decode(schedule),
            "next_at": wall_instant(at),
            "unserved": unserved,
        }
        for workflow, number, schedule, wall_due in tx.rows("reads.schedules")
        for at, unserved in (schedule_told(wall_due),)
    ]
