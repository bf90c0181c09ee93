"""Admit: load what admission asks for, let it decide, write down what it decided, hand the runs out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from pyrula.admission import Changes, Floor, Start
from pyrula.model.lane import Lane
from pyrula.model.lease import Lease
from pyrula.policies.stamp import served_name, unit_id
from pyrula.store.protocol import Claim, TurnRequest
from pyrula.store.shard import hold, rows
from pyrula.store.shard.aside import Versions
from pyrula.store.shard.loader import ShardLoader, Stamps
from pyrula.store.shard.overrides import Overrides
from pyrula.store.shard.record import read_logs
from pyrula.store.shard.remembered import Remembered
from pyrula.store.shard.tx import Row, Tx

_BELLS = 512
"""Lanes looked at because something joined or left them, in one turn: what a turn uses, not what there is."""

_seq = attrgetter("seq")
_CLOCK = ("", 0)
"""Workflow and priority of a unit that has no lanes."""

_EMPTY = rows.STATES.index("empty")


@dataclass(slots=True)
class Hall:
    """What this process remembers between turns. serves: incarnation → workflows."""

    shard: int
    serves: dict[str, frozenset[str]] = field(default_factory=dict)
    stamps: Stamps = field(default_factory=Stamps)
    remembered: Remembered = field(default_factory=Remembered)
    versions: Versions = field(default_factory=Versions)
    bell: bytes = b""


def admit(
    tx: Tx, request: TurnRequest, hall: Hall, freed: Mapping[bytes, int]
) -> tuple[tuple[Claim, ...], bool, Changes]:
    """Answers the runs that this worker may start now, leased to it, whether another turn has work to do, and what
    else came of it. freed: slots that were given back in this turn and are still counted as in
    use, by gate.
    """
    served = hall.serves.get(request.incarnation)
    if served is None:
        served = hall.serves[request.incarnation] = rows.served_by(tx, request.incarnation)
    overrides = Overrides.load(tx)
    hall.remembered.recall(tx)
    if overrides:  # which gates are told of as they are loaded
        hall.remembered.forget()
    loader = ShardLoader(tx, served, hall.stamps, overrides, hall.remembered)
    epoch, vtime = rows.turn_and_vtime(tx)
    floor = Floor(loader, tx.now, vtime)
    for gate, n in freed.items():
        floor.give_back(gate, n)
    more = _answer_bells(tx, floor, loader, hall)
    starts = floor.admit(request.wanted)
    changes = floor.changes()
    _write(tx, changes, loader)
    if not overrides:
        hall.remembered.keep(tx, changes, loader.stored, loader.begins)
    if not starts:
        return (), more or changes.more, changes
    epoch += 1
    tx.run("admit.turn", epoch, changes.vtime)
    claims = _hand_out(tx, request.incarnation, starts, epoch, loader, hall)
    return claims, more or changes.more, changes


def _answer_bells(tx: Tx, floor: Floor, loader: ShardLoader, hall: Hall) -> bool:
    """Tell the floor which lanes have another head than admission knows of; True when bells are left.

    Bells are taken round robin over the lanes' ids, so that nobody's flood keeps another waiting.
    """
    after = hall.bell
    rung = tx.rows("admit.bells", after, _BELLS)
    if not rung and after:
        rung = tx.rows("admit.bells", after := b"", _BELLS)
    hall.bell = rung[-1][0] if len(rung) == _BELLS else b""
    if not rung:
        return False
    tx.run("admit.drop_bells", after, rung[-1][0])
    joined, looks = [], []
    for lane_id, look, state, first, first_back in rung:
        if state is not None:
            loader.begins[lane_id] = first, first_back
        if look or state is None:
            looks.append((lane_id,))
        elif state == _EMPTY:  # a run that joins a lane behind others changes nothing
            joined.append(lane_id)
    known = loader.lanes(joined)
    floor.arrive([known[lane_id] for lane_id in joined])
    _look_at_heads(tx, floor, loader, looks, [bell[0] for bell in rung if bell[1]])
    return len(rung) == _BELLS


def _look_at_heads(
    tx: Tx, floor: Floor, loader: ShardLoader, looks: Sequence[Row], stored: Sequence[bytes]
) -> None:
    """Lanes that may have another head than admission knows of, and new ones. stored: those that may not be new."""
    known = loader.lanes(stored)
    opened: dict[int, tuple[bytes, bool]] = {}
    for lane_id, back, fresh in tx.match("admit.heads", looks):
        lane = known.get(lane_id)
        head = fresh if back is None else back
        if lane is None:
            if head is not None:
                opened[head] = lane_id, back is not None
        elif lane.state == "empty":
            if back is not None:
                floor.resume(lane)
            elif fresh is not None:
                floor.arrive([lane])
        elif head != lane.wait_seq or (back is not None) > lane.resumed:
            if back is not None:
                floor.resume(lane)
            floor.removed(lane_id, lane.wait_seq)
    _open_lanes(tx, floor, loader, opened)


def _open_lanes(tx: Tx, floor: Floor, loader: ShardLoader, opened: dict[int, tuple[bytes, bool]]) -> None:
    """The first runs of new lanes have come: their units and gates may be new, too. opened: by the seq of its first
    run, a lane, and whether that is a resumed one."""
    if not opened:
        return
    plans = hold.plans_of_runs(tx, list(opened))
    gates: dict[bytes, Row] = {}
    named: Counter[bytes] = Counter()
    found = sorted(tx.match("admit.run_of_lane", [(seq,) for seq in opened]))
    for seq, workflow, priority, unit_key, keys, stamp_id in found:
        lane_id, resumed = opened[seq]
        plan, stamp = plans[seq], loader.stamp(stamp_id)
        gates.update({row[0]: row for row in rows.gate_rows(stamp, keys, plan.gates, plan.numbers)})
        named.update(plan.gates)
        served = served_name(workflow, unit_key, stamp)
        lane = Lane(lane_id, unit_id(served, f"{priority} {unit_key}"), served, priority, plan.gates)
        loader.plans[lane_id], loader.seen[lane_id] = plan.numbers, lane
        if resumed:
            floor.resume(lane)
        else:
            floor.arrive([lane])
    tx.many("admit.open_gate", [(*row, named.pop(id)) for id, row in gates.items()])
    tx.many("admit.named", list(named.items()))  # slot gates, which their runs have opened


def _write(tx: Tx, changes: Changes, loader: ShardLoader) -> None:
    stored = loader.stored
    lanes = []
    for lane in changes.lanes:
        before = stored.get(lane.id)
        if not rows.is_stored(lane, before):
            row = stored[lane.id] = rows.lane_row(lane, loader.plans[lane.id])
            if row != before:
                lanes.append(row)
    tx.many("admit.lane", lanes)
    units = {lane.unit: (lane.workflow, lane.priority) for lane in changes.lanes}
    tx.many(
        "admit.unit",
        [(unit.id, *units.get(unit.id, _CLOCK), unit.vtime, unit.ready) for unit in changes.units],
    )
    passed: Counter[bytes] = Counter()
    for lane_id, n in Counter([start.lane_id for start in changes.starts]).items():
        for gate in loader.seen[lane_id].gates:
            passed[gate] = passed.get(gate, 0) + n
    tx.many("admit.gate", [rows.gate_row(gate, passed[gate.id]) for gate in changes.gates])
    tx.many("admit.leave", [(start.lane_id, int(start.resumed), start.seq) for start in changes.starts])


def _keeping(
    tx: Tx, starts: Sequence[Start], stamps: Mapping[int, bytes], loader: ShardLoader, hall: Hall
) -> tuple[set[int], set[int]]:
    """hold="run": those that begin to keep a slot, and all whose slots are noted. stamps: their digests."""
    kept = {digest: hall.stamps.keeping(tx, digest) for digest in set(stamps.values())}
    plans = {lane: loader.plans[lane] for lane in {start.lane_id for start in starts}}
    if not any(kept.values()) and not any(hold.SLOT_GATE in plan for plan in plans.values()):
        return set(), set()
    keeping = {start.seq for start in starts if not kept[stamps[start.seq]].isdisjoint(plans[start.lane_id])}
    return keeping, keeping | {start.seq for start in starts if hold.SLOT_GATE in plans[start.lane_id]}


def _hand_out(
    tx: Tx, incarnation: str, starts: Sequence[Start], epoch: int, loader: ShardLoader, hall: Hall
) -> tuple[Claim, ...]:
    in_order = sorted(starts, key=_seq)  # neighbours lie together
    found = {row[0]: row for row in tx.match("admit.run", [(start.seq,) for start in in_order])}
    keeping, noted = _keeping(tx, starts, {seq: row[5] for seq, row in found.items()}, loader, hall)
    tx.many(
        "admit.lease",
        [
            (
                start.seq,
                epoch,
                incarnation,
                tx.now,
                int(start.resumed),
                b"".join(start.gates),
                int(start.seq in noted),
            )
            for start in in_order
        ],
    )
    if noted:
        slots = [(gate, start.seq) for start in starts if start.seq in noted for gate in start.gates]
        tx.many("admit.slot", slots)
    if keeping:
        hold.lane_after_first_start(tx, sorted(keeping))
    logged = [
        start.seq for start in starts if start.resumed or found[start.seq][7] or found[start.seq][4] > 1
    ]
    logs = read_logs(tx, logged)
    claims = []
    for start in starts:
        seq, run_id, workflow, params, attempt, stamp, started_at, _, context = found[start.seq]
        claims.append(
            Claim(
                lease=Lease(seq, epoch, hall.shard),
                run_id=run_id,
                workflow=workflow,
                params=params,
                attempt=attempt,
                claimed_at=tx.now,
                stamp=loader.stamp(stamp),
                log=tuple(logs.get(seq, ())),
                started_at=started_at,
                context=context,
            )
        )
    return tuple(claims)
