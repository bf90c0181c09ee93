"""Rows of lanes, units and gates, to and from what admission works with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from pyrula.model.gate import Gate, WaitKey
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
_ID = 16


@lru_cache(4096)
def number_text(number: Number) -> str:
    """A stamp's number at one gate as JSON."""
    return _encode(number).decode()


@lru_cache(4096)
def number_of(text: str) -> Number:
    """What `number_text` wrote."""
    return _decode_number(text)


def lane_row(lane: Lane, plan: bytes) -> Row:
    """A lane, to be written. Of an empty one it does not matter how it last waited: so many are stored that way
    already, and need no writing.
    """
    fixed = (lane.id, lane.unit, lane.workflow, lane.priority, b"".join(lane.gates), plan)
    if lane.state == "empty":
        return (*fixed, 0, None, 0, 0, "0", int(lane.resumed), lane.streak)
    waits = (_CODES[lane.state], lane.gate, lane.wait_vtime, lane.wait_seq, number_text(lane.wait_stamp))
    return (*fixed, *waits, int(lane.resumed), lane.streak)


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
        _heralds_text(gate.heralds),
        starts,
    )


def _heralds_text(heralds: dict[str, WaitKey]) -> str:
    return _encode(heralds).decode() if heralds else "{}"


def heralds_of(text: str) -> dict[str, WaitKey]:
    """What was written of a gate's heralds."""
    return {} if text == "{}" else dict(_decode_heralds(text))


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


def turn_and_vtime(tx: Tx) -> tuple[int, int]:
    """The number of the last turn that handed runs out, and the shard's virtual time."""
    row = tx.row("admit.meta")
    assert row is not None
    return row[0], row[1]
