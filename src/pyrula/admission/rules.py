"""What one gate says to one run."""

from collections.abc import Mapping, Sequence

from pyrula.model.gate import FOREVER, Gate, GateId, Stamp
from pyrula.policies import tokens


def admits(gate: Gate, stamp: Stamp, now: int) -> bool:
    """Tell whether a run of this stamp may pass now: an override replaces the stamp, a pause stops all."""
    if now < gate.paused_until:
        return False
    number = stamp if gate.override is None else gate.override
    if isinstance(number, int):
        return gate.in_use < number
    return tokens.may_start(gate.debt, gate.at, gate.q, number, now)


def unhindered(
    gates: Mapping[GateId, Gate], ids: Sequence[GateId], stamps: Sequence[Stamp], now: int
) -> bool:
    """Tell whether all these gates admit a run of these stamps and nobody else wants to pass: the usual case, so it
    is told without a call for each gate.
    """
    for at, stamp in enumerate(stamps):
        gate = gates[ids[at]]
        if gate.waiting or gate.rota is not None:
            return False
        if gate.override is None and not gate.paused_until and isinstance(stamp, int):
            if gate.in_use >= stamp:
                return False
        elif not admits(gate, stamp, now):
            return False
    return True


def opens_at(gate: Gate, stamp: Stamp, now: int) -> int | None:
    """When (µs) a refused run of this stamp may pass by the mere passing of time; None if unknown."""
    number = stamp if gate.override is None else gate.override
    paused = gate.paused_until if gate.paused_until > now else None
    if not isinstance(number, int):
        paused = max(paused or 0, tokens.next_start(gate.debt, gate.at, gate.q, number, now))
    return paused if paused is None or paused < FOREVER else None


def room(gate: Gate, stamp: Stamp, now: int) -> int:
    """How many runs of this stamp could pass now."""
    if now < gate.paused_until:
        return 0
    number = stamp if gate.override is None else gate.override
    if isinstance(number, int):
        return max(0, number - gate.in_use)
    return tokens.available(gate.debt, gate.at, gate.q, number, now)


def places(gate: Gate, stamp: Stamp) -> int:
    """How many runs of this stamp could pass at once at best."""
    number = stamp if gate.override is None else gate.override
    return number if isinstance(number, int) else number[2]


def take_token(gate: Gate, rate: tuple[int, int, int], now: int) -> None:
    """Take one token of a rate, which `admits` said is there."""
    number = rate if gate.override is None else gate.override
    assert not isinstance(number, int)
    gate.debt, gate.at, gate.q = tokens.take(gate.debt, gate.at, gate.q, number, now)
