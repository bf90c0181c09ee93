"""Hold: slots that a run keeps from its first start to its end (`hold="run"`), and the children that share
them.

A run A that holds a slot of gate G counts once in G, whether it executes or is parked. Who of its family may
execute is decided by a *slot gate* S of its own, with room for one: from its first start on A queues for S in
G's place, and so does every descendant that needs G. So no body of the family runs beside another, G is never
exceeded, a child never waits for the slot that its waiting ancestor holds, and admission knows nothing of it:
S is a limit of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from pyrula.policies.stamp import Stamp, gate_id, lane_id, served_name
from pyrula.store.protocol import Submission
from pyrula.store.shard.tx import Tx

SLOT_GATE = 255
"""Stands in a lane's plan for a gate that no stamp names: a slot gate, which has room for 1."""


class Plan(NamedTuple):
    """Where a run queues. gates: ids, each once; numbers: for each, its place in the stamp, or SLOT_GATE."""

    lane: bytes
    gates: tuple[bytes, ...]
    numbers: bytes


class _Run(NamedTuple):
    seq: int
    run_id: str
    workflow: str
    priority: int
    unit_key: str
    stamp: Stamp
    gates: tuple[bytes, ...]


def slot_gate(gate: bytes, run_id: str) -> bytes:
    """The id of the gate that lets one at a time use the slot which a run holds of `gate`."""
    return gate_id("slot", "limit", slot_key(gate, run_id))


def slot_key(gate: bytes, run_id: str) -> str:
    """The key of that slot gate."""
    return f"{gate.hex()}:{run_id}"


def lane_for_child(tx: Tx, submission: Submission) -> bytes:
    """The lane of a run to be: for each gate that an ancestor holds a slot of it queues for that slot."""
    stamped = submission.stamped
    gates = _gate_ids(stamped.stamp, stamped.keys)
    parent = submission.parent
    seats = {} if parent is None else _seats(tx, [parent]).get(parent, {})
    served = served_name(submission.workflow, stamped.unit_key, stamped.stamp)
    return _plan(served, stamped.priority, stamped.unit_key, gates, seats).lane


def lane_of_run(tx: Tx, seq: int) -> bytes:
    """The lane in which a run queues as things are."""
    return plan_of_run(tx, seq).lane


def plan_of_run(tx: Tx, seq: int) -> Plan:
    """The lane in which a run queues as things are, and the gates of that lane."""
    return plans_of_runs(tx, [seq])[seq]


def plans_of_runs(tx: Tx, seqs: Sequence[int]) -> dict[int, Plan]:
    """The same for several, by seq."""
    return _plans(tx, _runs(tx, seqs))


def _plans(tx: Tx, runs: Sequence[_Run]) -> dict[int, Plan]:
    seats = _seats(tx, [run.run_id for run in runs if run.gates])
    return {
        run.seq: _plan(
            served_name(run.workflow, run.unit_key, run.stamp),
            run.priority,
            run.unit_key,
            run.gates,
            seats.get(run.run_id, {}),
        )
        for run in runs
    }


def lane_after_first_start(tx: Tx, seqs: Sequence[int]) -> None:
    """Have runs that were just claimed keep the slots that they are to keep; those that they keep already,
    and those that they share with an ancestor, are left alone.
    """
    runs = {run.seq: run for run in _runs(tx, seqs)}
    wanted = [
        (gate, run.seq)
        for run in runs.values()
        for stamp, gate in zip(run.stamp.gates, run.gates, strict=True)
        if stamp.hold == "run"
    ]
    kept = tx.match("hold.keep", wanted)
    slots = {(slot_gate(gate, runs[seq].run_id), slot_key(gate, runs[seq].run_id), seq) for gate, seq in kept}
    keepers = {seq: runs[seq] for _, seq in kept}
    tx.many("hold.open", [(slot, key) for slot, key, _ in slots])
    tx.many("hold.take", [(slot, seq) for slot, _, seq in slots])
    plans = _plans(tx, list(keepers.values()))
    tx.many("hold.lane", [(seq, plan.lane) for seq, plan in plans.items()])


def on_finish(tx: Tx, seq: int) -> None:
    """Give back all slots of a run that has ended. A descendant that executes on one it held goes on with
    that slot as its own; the others queue for real from now on.
    """
    owner = _runs(tx, [seq])[0]
    for gate, _, held in tx.rows("finish.slots", seq):
        tx.run("finish.leave", gate, seq)
        if not (held and _inherit(tx, gate, owner)):
            tx.many("finish.free", [(gate, 1)])
    relane_family(tx, owner.run_id)


def relane_family(tx: Tx, run_id: str) -> None:
    """Have each open descendant of a run queue where it belongs as things are now."""
    for seq, lane in tx.rows("hold.family", run_id):
        now = lane_of_run(tx, seq)
        if now != lane:
            tx.run("hold.lane", seq, now)
            move(tx, seq, lane, now)


def move(tx: Tx, seq: int, old: bytes, new: bytes) -> None:
    """Move a run from one lane to another, if it is queued."""
    moved = [(new, resumed, seq, stamp) for resumed, stamp in tx.rows("hold.leave_lane", old, seq)]
    if moved:
        tx.many("submit.queue", moved)
        tx.many("submit.bell", [(old,), (new,)])


def _inherit(tx: Tx, gate: bytes, owner: _Run) -> bool:
    """Hand a held slot to the descendant that executes on it; False if there is none."""
    slot = slot_gate(gate, owner.run_id)
    heir = tx.row("hold.heir", slot, owner.seq)
    if heir is None:
        return False
    tx.run("finish.leave", slot, *heir)
    tx.many("finish.free", [(slot, 1)])
    tx.run("hold.take", gate, *heir)
    lane_after_first_start(tx, heir)
    return True


def _seats(tx: Tx, run_ids: Sequence[str]) -> dict[str, dict[bytes, bytes]]:
    """Per run gate → slot gate, for each slot that it or an ancestor of it holds; the nearest decides."""
    seats: dict[str, dict[bytes, bytes]] = {}
    for run_id, gate, owner in tx.match("hold.seats", [(run_id,) for run_id in run_ids]):
        seats.setdefault(run_id, {}).setdefault(gate, slot_gate(gate, owner))
    return seats


def _plan(
    served: str, priority: int, unit_key: str, gates: tuple[bytes, ...], seats: dict[bytes, bytes]
) -> Plan:
    ids = tuple(seats.get(gate, gate) for gate in gates)
    numbers = bytes(SLOT_GATE if gate in seats else number for number, gate in enumerate(gates))
    return Plan(lane_id(served, priority, unit_key, ids), ids, numbers)


def _runs(tx: Tx, seqs: Sequence[int]) -> list[_Run]:
    return [
        _Run(
            seq, run_id, workflow, priority, unit_key, stamp := _decoded(data), _gate_ids(stamp, _keys(keys))
        )
        for seq, run_id, workflow, priority, unit_key, data, keys in tx.match(
            "hold.run", [(seq,) for seq in seqs]
        )
    ]


@lru_cache(4096)
def _decoded(stamp: bytes) -> Stamp:
    return Stamp.decode(stamp)


def _keys(keys: str) -> tuple[str, ...]:
    return msgspec.json.decode(keys, type=tuple[str, ...])


def _gate_ids(stamp: Stamp, keys: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(gate_id(gate.name, gate.kind, key) for gate, key in zip(stamp.gates, keys, strict=True))
