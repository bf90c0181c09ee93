"""Why: every reason for which a run is not executing, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from pyrula.model.gate import FOREVER
from pyrula.policies import tokens
from pyrula.policies.stamp import Stamp, served_name
from pyrula.store.shard import hold, reads, sentences
from pyrula.store.shard.counters import Counter, effective, pauses, shut_until
from pyrula.store.shard.handin import CANCEL
from pyrula.store.shard.inside import holders
from pyrula.store.shard.instants import instant, wall_instant
from pyrula.store.shard.overrides import Number, Overrides
from pyrula.store.shard.settle import child_name
from pyrula.store.shard.submit import START
from pyrula.store.shard.tx import Tx

_AHEAD: Final = 1000
_HOLDERS: Final = 20
Reason = dict[str, Any]


class _Run(NamedTuple):
    seq: int
    workflow: str
    state: str
    parked: str | None
    lane: bytes
    stamp: Stamp
    keys: tuple[str, ...]
    error: bytes | None
    worker: str | None
    unit_key: str
    signal: int


class _Line(NamedTuple):
    """A run's place in its lane. ahead: runs before it; fresh: those of them that will take tokens."""

    resumed: bool
    ahead: int
    fresh: int


def why(tx: Tx, run_id: str) -> dict[str, Any] | None:
    """Why a run is not executing, or is about to end; None if there is no such run.

    state; reasons: each with its `kind` (limit, rate, pause, not_due, no_worker, workers_held_back,
    set_aside, waiting_for, partition_stopped; cancelling of one that executes) and what belongs to it: gate, key,
    in_use, max, holders (run ids), tokens, next_token_at, until; of a pause by, run_id, every_key (`Pause`); place: in
    the line of the runs like it, 1 first, "1000+" behind a thousand; ahead: how many are before it, up to 1,000;
    earliest_start: not before this instant, None where that takes a slot, a worker or an operator; text: all of it in
    words. Instants are aware datetimes.
    """
    row = tx.row("why.run", run_id)
    if row is None:
        return _unread(tx, run_id)
    seq, workflow, state, parked, lane, stamp, keys, error, worker, unit_key, signal = row
    its_keys = msgspec.json.decode(keys, type=tuple[str, ...])
    run = _Run(
        seq, workflow, state, parked, lane, Stamp.decode(stamp), its_keys, error, worker, unit_key, signal
    )
    answer: dict[str, Any] = {
        "run_id": run_id,
        "workflow": run.workflow,
        "state": run.state,
        "reasons": [],
        "place": None,
        "ahead": None,
        "earliest_start": None,
        "worker_id": run.worker,
    }
    if run.state == "queued":
        answer |= _queued(tx, run) if run.parked is None else _not_due(tx, run)
    elif run.state == "parked":
        answer |= _parked(tx, run)
    elif run.state == "executing" and run.signal & CANCEL:
        answer["reasons"] = [{"kind": "cancelling"}]
    elif run.state == "failed" and run.stamp.owned:
        answer["reasons"] = _stopped_at(tx, run_id)
    answer["text"] = sentences.text(answer)
    return answer


def _unread(tx: Tx, run_id: str) -> dict[str, Any] | None:
    """The run of a record that could not become one, if a partition stopped there."""
    stopped = _stopped_at(tx, run_id)
    if not stopped:
        return None
    return {
        "run_id": run_id,
        "workflow": stopped[0]["workflow"],
        "state": "refused",
        "reasons": stopped,
        "place": None,
        "ahead": None,
        "earliest_start": None,
        "worker_id": stopped[0]["worker_id"],
        "text": sentences.stopped(stopped[0]),
    }


def _stopped_at(tx: Tx, run_id: str) -> list[Reason]:
    """What the owner of a partition that stopped at this run's record says of it."""
    return [
        {"kind": "partition_stopped", "worker_id": worker_id, "workflow": stream["workflow"], **stop}
        for worker_id, _, facts in tx.rows("why.workers", tx.now)
        for stream in msgspec.json.decode(facts).get("streams", ())
        for stop in stream["stopped"]
        if stop["run_id"] == run_id
    ]


def _parked(tx: Tx, run: _Run) -> dict[str, Any]:
    error = None if run.error is None else msgspec.json.decode(run.error)
    if run.parked == "aside":
        return {"reasons": [{"kind": "set_aside", "error": error}]}
    if run.parked == "retry":
        answer = _not_due(tx, run)
        answer["reasons"][0] |= {"backs_off": True, "error": error}
        return answer
    waits = []
    for kind, name, value, due, child_state in tx.rows("why.waits", run.seq):
        waits.append({"kind": "waiting_for", "what": kind, "name": name, "until": instant(tx, due)})
        if kind == "child":
            waits[-1] |= {"run_id": child_name(value), "state": child_state}
    return {"reasons": waits}


def _not_due(tx: Tx, run: _Run) -> dict[str, Any]:
    row = tx.row("why.due", run.seq, START)
    due, wall_due = row if row is not None else (None, None)
    until: datetime | None = instant(tx, due) if wall_due is None else wall_instant(wall_due)
    starts = due if wall_due is None else tx.now + max(0, wall_due - tx.wall)
    return {
        "reasons": [{"kind": "not_due", "until": until}, *_workers(tx, run)],
        "earliest_start": instant(tx, None if starts is None else max(starts, tx.now)),
    }


def _queued(tx: Tx, run: _Run) -> dict[str, Any]:
    line = _line(tx, run)
    overrides = Overrides.load(tx)
    reasons: list[Reason] = []
    starts: list[int | None] = [tx.now]
    plan = hold.plan_of_run(tx, run.seq)
    for id, number in zip(plan.gates, plan.numbers, strict=True):
        row = tx.row("counters.gate", id)
        if number == hold.SLOT_GATE:
            gate, stamped = Counter.of_row(row) if row else Counter(id, "slot", "", "limit"), None
        else:
            stamp, key = run.stamp.gates[number], run.keys[number]
            gate, stamped = (
                Counter.of_row(row) if row else Counter(id, stamp.name, key, stamp.kind),
                stamp.number,
            )
        found, start = _at_gate(tx, gate, 1 if stamped is None else stamped, line, overrides)
        reasons += found
        starts.append(start)
    workers = _workers(tx, run)
    if workers:
        starts.append(None)
    known = [start for start in starts if start is not None]
    return {
        "reasons": [*reasons, *workers],
        "place": line.ahead + 1 if line.ahead < _AHEAD else f"{_AHEAD}+",
        "ahead": line.ahead,
        "earliest_start": instant(tx, max(known)) if len(known) == len(starts) else None,
    }


def _line(tx: Tx, run: _Run) -> _Line:
    row = tx.row("why.place", run.lane, run.seq)
    resumed = bool(row[0]) if row is not None else False
    before = tx.rows("why.ahead", run.lane, int(resumed), run.seq, _AHEAD)
    fresh = sum(count for is_resumed, count in before if not is_resumed)
    return _Line(resumed, min(_AHEAD, sum(count for _, count in before)), fresh)


def _at_gate(
    tx: Tx, gate: Counter, stamped: Number, line: _Line, overrides: Overrides
) -> tuple[list[Reason], int | None]:
    """What one gate has against the run, and when that may be over (None: time alone won't do)."""
    number = effective(overrides, gate.kind, gate.name, gate.key, stamped)
    reasons: list[Reason] = []
    about = {"gate": gate.name, "key": gate.key}
    opens = max(tx.now, shut_until(overrides, gate))
    if opens > tx.now:
        reasons += [
            {"kind": "pause", **about, **msgspec.structs.asdict(each)} for each in pauses(tx, overrides, gate)
        ]
    start: int | None = None if opens >= FOREVER else opens
    if isinstance(number, tuple):
        if not line.resumed:  # what was parked takes no second token
            nth = nth_start(gate, number, tx.now, line.fresh)
            if nth > tx.now:
                free = tokens.available(gate.debt, gate.at, gate.q, number, tx.now)
                token = tokens.next_start(gate.debt, gate.at, gate.q, number, tx.now)
                p, q, burst = number
                numbers = {"tokens": free, "per_second": p / q, "burst": burst}
                reasons.append({"kind": "rate", **about, **numbers, "next_token_at": instant(tx, token)})
            start = None if start is None else max(start, nth)
    elif number is not None and gate.in_use + line.ahead >= number:
        inside = holders(tx, [gate.id], _HOLDERS)[gate.id]
        full: Reason = {"in_use": gate.in_use, "max": number, "holders": inside}
        reasons.append({"kind": "limit", **about, **full})
        start = None
    return reasons, start


def nth_start(gate: Counter, rate: tuple[int, int, int], now: int, ahead: int) -> int:
    """When a rate gate may let a run in that has `ahead` others before it: not before this, and then exactly
    if nobody else uses the gate.
    """
    debt, at, q = gate.debt, gate.at, gate.q
    start = tokens.next_start(debt, at, q, rate, now)
    for _ in range(ahead):
        debt, at, q = tokens.take(debt, at, q, rate, start)
        start = tokens.next_start(debt, at, q, rate, start)
    return start


def _workers(tx: Tx, run: _Run) -> list[Reason]:
    """Nobody alive who serves the workflow, or everybody held back by limits of their own."""
    served = served_name(run.workflow, run.unit_key, run.stamp)
    serving = serving_of(reads.workers(tx), served)
    if not serving:
        owned = {"owner_of": run.unit_key} if run.stamp.owned else {}
        return [{"kind": "no_worker", "workflow": run.workflow, **owned}]
    return all_held_back(serving)


def serving_of(workers: Sequence[Mapping[str, Any]], served: str) -> list[Mapping[str, Any]]:
    """Those of `workers` (as `reads.workers` tells of them) that live and serve it."""
    return [worker for worker in workers if worker["alive"] and served in worker["serves"]]


def all_held_back(serving: Sequence[Mapping[str, Any]]) -> list[Reason]:
    """What holds them back, if none of them would take a run now: its limiters, or as many runs as it executes at
    once."""
    held = [
        {"worker_id": worker["worker_id"], "held_back": worker["facts"].get("held_back") or _full(worker)}
        for worker in serving
    ]
    if serving and all(worker["held_back"] for worker in held):
        return [{"kind": "workers_held_back", "workers": held[:_HOLDERS]}]
    return []


def _full(worker: Mapping[str, Any]) -> list[Reason]:
    executing, most = worker["executing"], worker["facts"].get("max_concurrent_runs")
    if most is None or executing < most:
        return []
    return [
        {
            "level": "worker",
            "limitable": "max_concurrent_runs",
            "measure": "runs",
            "value": executing,
            "limit": most,
            "text": f"max_concurrent_runs: it executes {executing} of {most}",
        }
    ]
