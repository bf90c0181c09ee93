"""Deadlock: runs that wait for each other through slots they hold, in a cycle that nothing else will
break.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from pyrula.store.shard.cancel import cancel
from pyrula.store.shard.inside import inside, members
from pyrula.store.shard.outbox import Cancel, send
from pyrula.store.shard.overrides import Number, Overrides
from pyrula.store.shard.settle import child_name, wake
from pyrula.store.shard.tx import Tx

_CYCLES = 16
_SUSPECTS = 10_000
_ROUNDS = 1000


@dataclass(slots=True)
class Waiting:
    """Who waits for whom. runs: seq → run id. children: a parked parent that waits for nothing but children →
    their seqs. gates: a queued run whose lane waits at a limit → that gate. inside: gate → who is inside;
    room: gate → its max. names: gate → how people call it. away: parents whose children are on other shards.
    """

    runs: dict[int, str] = field(default_factory=dict)
    children: dict[int, list[int]] = field(default_factory=dict)
    gates: dict[int, bytes] = field(default_factory=dict)
    inside: dict[bytes, list[int]] = field(default_factory=dict)
    room: dict[bytes, int] = field(default_factory=dict)
    names: dict[bytes, str] = field(default_factory=dict)
    away: set[int] = field(default_factory=set)


def find(tx: Tx) -> int:
    """Break such cycles: in each, the youngest waiting parent's child is cancelled, and the parent goes on
    with a `SlotDeadlock` in its place; how many there were. Looks at those that keep a slot and wait for a
    child, and once at each other that is parked with one: what only sleeps with its slot costs nothing.
    """
    broken = 0
    while broken < _CYCLES:
        waiting = _load(tx)
        cycle = cycle_of(waiting, stuck(waiting))
        if not cycle:
            return broken
        _break(tx, waiting, cycle)
        broken += 1
    return broken


def stuck(waiting: Waiting) -> frozenset[int]:
    """The runs that will never go on by themselves.

    A parent goes on when any of its children ends, a queued run when anybody inside its gate leaves: so those
    remain of whom nobody they wait for goes on.
    """
    left = set(waiting.children) | set(waiting.gates)
    while True:
        going = {seq for seq in left if not _held_up(waiting, seq, left)}
        if not going:
            return frozenset(left)
        left -= going


def _held_up(waiting: Waiting, seq: int, left: set[int]) -> bool:
    children = waiting.children.get(seq)
    if children is not None:
        return all(child in left for child in children)
    gate = waiting.gates[seq]
    inside = waiting.inside[gate]
    return len(inside) >= waiting.room[gate] and all(holder in left for holder in inside)


def cycle_of(waiting: Waiting, left: frozenset[int]) -> list[int]:
    """A cycle among runs that are stuck, as (parent, child, parent, …) or parts of it; empty if none is."""
    if not left:
        return []
    path: list[int] = []
    seen: dict[int, int] = {}
    at = min(left)
    while at not in seen:
        seen[at] = len(path)
        path.append(at)
        at = min(waiting.children[at] if at in waiting.children else waiting.inside[waiting.gates[at]])
    return path[seen[at] :]


def _break(tx: Tx, waiting: Waiting, cycle: Sequence[int]) -> None:
    """Fail the wait of the youngest parent in the cycle, and cancel the child it was for."""
    parent = max(seq for seq in cycle if seq in waiting.children)
    child = cycle[(cycle.index(parent) + 1) % len(cycle)]
    message = advice(waiting, cycle, parent, child)
    fail_wait(tx, parent, waiting.runs[child], message)
    cancel(tx, [waiting.runs[child]])


def advice(waiting: Waiting, cycle: Sequence[int], parent: int, child: int) -> str:
    """What the parent is told that was made to give up on a child."""
    return (
        f"{described(waiting, cycle)}. The youngest that waits, {waiting.runs[parent]}, was made to give "
        f"up on its child {waiting.runs[child]}, which was cancelled. Have these workflows take their gates in one "
        'order, or drop hold="run"'
    )


def fail_wait(tx: Tx, parent: int, given_up: str, message: str) -> None:
    """End a parent's wait for a child with a `SlotDeadlock`."""
    error = msgspec.json.encode(
        {"type": "SlotDeadlock", "message": message, "code": "slot_deadlock", "run_id": given_up}
    )
    counted = tx.match("settle.count", [(parent, 1)])
    tx.run("deadlock.fail", parent, given_up.encode(), error, counted[0][1], tx.now)
    wake(tx, [parent])


def described(waiting: Waiting, cycle: Sequence[int]) -> str:
    """The cycle in words."""
    parts = []
    for seq in cycle:
        if seq in waiting.children:
            parts.append(f"run {waiting.runs[seq]} waits for its child")
        else:
            name = waiting.names[waiting.gates[seq]]
            parts.append(f"run {waiting.runs[seq]} waits for a slot of gate {name} held by")
    return f"runs wait for each other's slots: {' '.join(parts)} run {waiting.runs[cycle[0]]}"


def _load(tx: Tx) -> Waiting:
    """Everybody that a parked holder of a slot waits for, and whom those wait for in turn."""
    waiting = Waiting()
    overrides = Overrides.load(tx)
    suspects = fresh = [seq for (seq,) in tx.rows("deadlock.suspects", 0, _SUSPECTS)]
    seen: set[int] = set()
    for _ in range(_ROUNDS):
        fresh = [seq for seq in dict.fromkeys(fresh) if seq not in seen]
        if not fresh:
            break
        seen.update(fresh)
        rows = [(seq,) for seq in fresh]
        found = _parents(tx, waiting, rows)
        fresh = found + _queued(tx, waiting, rows, overrides)
    innocent = [seq for seq in suspects if seq not in waiting.children and seq not in waiting.away]
    tx.many("deadlock.cleared", [(seq,) for seq in innocent])
    return waiting


def _parents(tx: Tx, waiting: Waiting, rows: list[tuple[int]]) -> list[int]:
    """Note the parked ones that wait for children and nothing else, and without an end; answers the
    children.
    """
    parents = _waits(tx, waiting, rows)
    names = list({(name,) for some in parents.values() for name in some})
    seqs: dict[str, int] = dict(tx.match("fire.seq", names))
    waiting.runs.update({seq: name for name, seq in seqs.items()})
    for seq, some in parents.items():
        if all(name in seqs for name in some):
            waiting.children[seq] = [seqs[name] for name in some]
        elif tx.match("family.open", [(waiting.runs[seq],)]):
            waiting.away.add(seq)
    return [child for children in waiting.children.values() for child in children]


def _waits(tx: Tx, waiting: Waiting, rows: Sequence[tuple[int]]) -> dict[int, list[str]]:
    """Of parked runs that wait for children and nothing else, and without an end, those children."""
    waits: dict[int, list[str]] = defaultdict(list)
    others: set[int] = set()
    for seq, run_id, kind, value, due in tx.match("deadlock.waits", rows):
        waiting.runs[seq] = run_id
        if kind == "child" and due is None:
            waits[seq].append(child_name(value))
        else:
            others.add(seq)
    return {seq: names for seq, names in waits.items() if seq not in others}


# -- on several shards, where each knows a part of who waits for whom


class Looked(NamedTuple):
    """What one shard knows of some runs. seqs: those asked by id; names: a parent → the ids of the children that it
    waits for; away: of those, the ones on other shards, and where; waiting: the rest. more: who is to be looked at."""

    seqs: dict[str, int]
    names: dict[int, list[str]]
    away: dict[str, int]
    waiting: Waiting
    more: list[int]


def look(tx: Tx, seqs: Sequence[int] | None, run_ids: Sequence[str]) -> Looked:
    """Whom runs of this shard wait for. seqs: None for the parked ones that hold a slot."""
    waiting = Waiting()
    asked = [seq for (seq,) in tx.rows("deadlock.suspects", 0, _SUSPECTS)] if seqs is None else list(seqs)
    by_id: dict[str, int] = dict(tx.match("fire.seq", [(run_id,) for run_id in run_ids]))
    rows = [(seq,) for seq in dict.fromkeys([*asked, *by_id.values()])]
    waiting.runs.update({seq: run_id for run_id, seq in by_id.items()})
    names = _waits(tx, waiting, rows)
    away = {
        child: shard for _, child, shard in tx.match("family.open", [(waiting.runs[seq],) for seq in names])
    }
    here = [name for some in names.values() for name in some if name not in away]
    by_id |= dict(tx.match("fire.seq", [(name,) for name in here]))
    more = [by_id[name] for name in here if name in by_id]
    more += _queued(tx, waiting, list(rows), Overrides.load(tx))
    return Looked(by_id, names, away, waiting, more)


def give_up(tx: Tx, parent: int, child: str, shard: int | None, message: str) -> bool:
    """Break a cycle that goes over several shards at this parent. shard: where the child is, None: here. False if the
    parent does not wait for it any more.
    """
    waiting = Waiting()
    if child not in _waits(tx, waiting, [(parent,)]).get(parent, ()):
        return False
    fail_wait(tx, parent, child, message)
    if shard is None:
        cancel(tx, [child])
    else:
        send(tx, [(shard, Cancel(child, waiting.runs[parent]))])
    return True


def _queued(tx: Tx, waiting: Waiting, rows: list[tuple[int]], overrides: Overrides) -> list[int]:
    """Note the queued ones whose lanes wait at a limit; answers who is inside."""
    gates: dict[bytes, None] = {}
    for seq, run_id, gate, name, key, stamped in tx.match("deadlock.queued", rows):
        number: Number = msgspec.json.decode(stamped)
        override = overrides.limit(name, key)
        waiting.runs[seq], waiting.gates[seq] = run_id, gate
        waiting.room[gate] = override if override is not None else number if isinstance(number, int) else 1
        waiting.names[gate] = f"{name} (key {key!r})" if key else name
        gates[gate] = None
    holders = inside(tx, gates)
    found = [seq for seqs in holders.values() for seq in seqs]
    waiting.inside.update(holders)
    waiting.runs.update({seq: row[0] for seq, row in members(tx, found).items()})
    return found
