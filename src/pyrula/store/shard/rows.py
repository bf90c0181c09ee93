"""Rows of lanes, units and gates, to and from what admission works with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import msgspec

from pyrula.model.gate import Gate, Rota, Share, WaitKey
from pyrula.model.gate import Stamp as Number
from pyrula.model.lane import Lane
from pyrula.policies.stamp import Stamp, gate_id
from pyrula.store.shard.hold import SLOT_GATE
from pyrula.store.shard.tx import Row, Tx

STATES = ("empty", "ready", "waiting")
_CODES = {state: code for code, state in enumerate(STATES)}
KINDS = ("limit", "rate", "limit")
"""Of gates.kind: a limit, a rate, a slot gate."""

_encode = msgspec.json.Encoder().encode
_decode_heralds = msgspec.json.Decoder(dict[str, tuple[int, int, int, bytes]]).decode
_decode_number = msgspec.json.Decoder(int | tuple[int, int, int]).decode
_decode_serves = msgspec.json.Decoder(list[str]).decode
_ID = 16
_ROTA = "@"
_ROOMY = 1_000
"""Runs that a worker has room for that does not say how many it takes."""


@lru_cache(4096)
def number_text(number: Number) -> str:
    """A stamp's number at one gate as JSON."""
    return _encode(number).decode()


@lru_cache(4096)
def number_of(text: str) -> Number:
    """What `number_text` wrote."""
    return _decode_number(text)


BEFORE_ALL: Final[WaitKey] = (0, 0, 0, b"")
"""A place before all in line."""


def place_of(row: Row) -> WaitKey:
    """The place in its line of a lane that waits."""
    return (row[3], row[8], row[9], row[0])


def lane_row(lane: Lane, plan: bytes) -> Row:
    """A lane, to be written. Of an empty one it does not matter how it last waited: so many are stored that way
    already, and need no writing.
    """
    fixed = (lane.id, lane.unit, lane.workflow, lane.priority, b"".join(lane.gates), plan)
    if lane.state == "empty":
        return (*fixed, 0, None, 0, 0, "0", int(lane.resumed), lane.streak)
    waits = (_CODES[lane.state], lane.gate, lane.wait_vtime, lane.wait_seq, number_text(lane.wait_stamp))
    return (*fixed, *waits, int(lane.resumed), lane.streak)


def is_stored(lane: Lane, row: Row | None) -> bool:
    """Whether an empty lane is stored as it is: `lane_row` of it would be this row."""
    return (
        lane.state == "empty"
        and row is not None
        and row[6] == 0
        and row[11] == lane.resumed
        and row[12] == lane.streak
    )


def lane_of(row: Row) -> Lane:
    """A lane as written by `lane_row`."""
    id, unit, workflow, priority, gates, _, state, gate, vtime, seq, stamp, resumed, streak = row
    return Lane(
        id,
        unit,
        workflow,
        priority,
        tuple(gates[at : at + _ID] for at in range(0, len(gates), _ID)),
        STATES[state],
        gate,
        vtime,
        seq,
        number_of(stamp),
        bool(resumed),
        streak,
    )


def gate_row(gate: Gate, starts: int) -> Row:
    """What a turn may have changed of a gate, to be written, and how many starts it let through."""
    return (
        gate.id,
        gate.in_use,
        str(gate.debt),
        gate.at,
        gate.q,
        gate.waiting,
        int(gate.dirty),
        gate.wake_at,
        _heralds_text(gate) if gate.heralds or gate.rota is not None else "{}",
        starts,
    )


def _heralds_text(gate: Gate) -> str:
    """Heralds, and behind them the rota under names that no workflow has: code that knows of none leaves it alone."""
    if gate.rota is None:
        return _encode(gate.heralds).decode()
    rota = gate.rota
    rows = {
        _ROTA + id.hex(): (share.starts, share.missed, share.rests, b"") for id, share in rota.shares.items()
    }
    return _encode({**gate.heralds, _ROTA: (rota.since, rota.until, 0, rota.last), **rows}).decode()


def heralds_of(text: str) -> tuple[dict[str, WaitKey], Rota | None]:
    """What was written of a gate's heralds, and its rota."""
    if text == "{}":
        return {}, None
    heralds = _decode_heralds(text)
    if _ROTA not in heralds:
        return heralds, None
    since, until, _, last = heralds.pop(_ROTA)
    rota = Rota(last, since, until)
    for name in [name for name in heralds if name.startswith(_ROTA)]:
        starts, missed, rests, _ = heralds.pop(name)
        rota.shares[bytes.fromhex(name[len(_ROTA) :])] = Share(starts, missed, rests)
    return heralds, rota


def gate_rows(stamp: Stamp, keys: str, ids: Sequence[bytes], plan: bytes) -> list[Row]:
    """(id, name, key, kind) of a lane's own gates, as they are when first used; slot gates have their rows."""
    texts = msgspec.json.decode(keys, type=list[str])
    return list(_gate_rows(stamp, texts, ids, plan))


def _gate_rows(stamp: Stamp, keys: Sequence[str], ids: Sequence[bytes], plan: bytes) -> Iterator[Row]:
    for id, number in zip(ids, plan, strict=True):
        if number != SLOT_GATE:
            gate = stamp.gates[number]
            assert id == gate_id(gate.name, gate.kind, keys[number])
            yield id, gate.name, keys[number], KINDS.index(gate.kind)


def served_by(tx: Tx, incarnation: str) -> frozenset[str]:
    """The workflows that a worker serves."""
    row = tx.row("admit.serves", incarnation)
    return frozenset(msgspec.json.decode(row[0], type=list[str])) if row else frozenset()


class _Facts(msgspec.Struct):
    """What a worker says of itself, as far as it tells whether it would take a run now."""

    max_concurrent_runs: int = _ROOMY
    held_back: list[msgspec.Raw] = []


@lru_cache(1024)
def worker_of(serves: str, facts: bytes) -> tuple[bytes, frozenset[str], int]:
    """Of a worker's row: the digest of the set of names that it serves, the set, and how many runs it takes at once."""
    names = frozenset(_decode_serves(serves))
    said = msgspec.json.decode(facts, type=_Facts)
    return served_digest(names), names, 0 if said.held_back else said.max_concurrent_runs


def served_digest(served: frozenset[str]) -> bytes:
    """Names a set of workflows."""
    return blake2b("\0".join(sorted(served)).encode(), digest_size=16).digest()


def turn_and_vtime(tx: Tx) -> tuple[int, int]:
    """The number of the last turn that handed runs out, and the shard's virtual time."""
    row = tx.row("admit.meta")
    assert row is not None
    return row[0], row[1]
