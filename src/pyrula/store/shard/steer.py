"""Steer: override a gate's numbers, pause and resume it: at once, for queued runs too, over deploys."""

from __future__ import annotations

import msgspec

from pyrula.errors import ConfigurationError, GateNotFound, shown
from pyrula.model.gate import FOREVER
from pyrula.policies.stamp import Stamp
from pyrula.store.shard.overrides import Number, Overrides
from pyrula.store.shard.tx import Tx

__all__ = ["FOREVER", "Overrides", "expire", "override", "pause", "resume"]


def override(
    tx: Tx,
    gate: str,
    key: str | None,
    number: Number | None,
    expires_in: int | None,
    known: set[str] | None = None,
) -> None:
    """Put a number in the place of the stamped one of every run in line, for one key (storable form) or all.

    number: max of a limit, (p, q, burst) of a rate, None to go back to what is stamped. expires_in: µs; it
    lapses by itself. Raises `GateNotFound`; `ConfigurationError` for a rate's numbers on a limit, or a
    limit's on a rate. known: its kinds, where another shard has told of them.
    """
    known = known or kinds(tx, gate)
    if number is None:
        for kind in ("limit", "rate"):
            tx.run("steer.remove", gate, *_target(key), kind)
    else:
        kind = "limit" if isinstance(number, int) else "rate"
        if kind not in known:
            other, use = ("rate", "per_second") if kind == "limit" else ("limit", "max")
            raise ConfigurationError(
                f"gate {gate!r} is a {other}, and was to be overridden with the number of a {kind}, "
                f"{_said(number)}; override_{other} (`pyrula override` with "
                f"--{use.replace('_', '-')}) gives it {use}"
            )
        expires_at = None if expires_in is None else tx.now + expires_in
        tx.run("steer.set", gate, *_target(key), kind, msgspec.json.encode(number).decode(), expires_at)
    _changed(tx, gate, key)


def _said(number: Number) -> str:
    if isinstance(number, int):
        return f"max {number}"
    p, q, burst = number
    return f"{p / q:g} a second, burst {burst}"


def pause(tx: Tx, gate: str, key: str | None, until: int | None, known: set[str] | None = None) -> None:
    """Start nothing through a gate, for one key (storable form) or all, until `until` µs from now (None:
    until `resume`). Pausing all of it takes back what `resume` let out of an earlier pause. Raises
    `GateNotFound`.
    """
    _ = known or kinds(tx, gate)
    ends = FOREVER if until is None else tx.now + max(0, until)
    if key is None:
        tx.run("steer.remove_exceptions", gate)
    tx.run("steer.set", gate, *_target(key), "pause", str(ends), None if until is None else ends)
    _changed(tx, gate, key)


def resume(tx: Tx, gate: str, key: str | None, known: set[str] | None = None) -> None:
    """End a pause. One key's goes on even while the rest of its gate stays paused, and a `RetryAfter` that
    closed it is over, too. For all keys: the pause of the whole gate ends, a key that was paused by itself
    stays so. Raises `GateNotFound`.
    """
    _ = known or kinds(tx, gate)
    tx.run("steer.remove", gate, *_target(key), "pause")
    if key is None:
        tx.run("steer.remove_exceptions", gate)
    else:
        held = Overrides.load(tx).by_gate.get((gate, "pause"))
        if held is not None:  # an exception to it, for as long as it lasts
            tx.run("steer.set", gate, 0, key, "pause", "0", held[1])
        tx.run("steer.reopen", gate, key, tx.now)
    _changed(tx, gate, key)


def expire(tx: Tx) -> int:
    """Drop overrides and pauses that have lapsed, and have their gates looked at; how many there were."""
    lapsed = tx.rows("steer.lapsed", tx.now)
    for gate, every, key in lapsed:
        _changed(tx, gate, None if every else key)
    return len(lapsed)


def _target(key: str | None) -> tuple[int, str]:
    return (1, "") if key is None else (0, key)


def _changed(tx: Tx, gate: str, key: str | None) -> None:
    """Have the next turn look at the lanes that wait there, and every process read the overrides anew."""
    if key is None:
        tx.run("steer.dirty", gate)
    else:
        tx.run("steer.dirty_key", gate, key)
    tx.run("steer.mark")


def kinds(tx: Tx, gate: str) -> set[str]:
    """limit, rate or both: what a gate name stands for. Raises `GateNotFound` if no run and no worker knows
    it.
    """
    found = {("limit", "rate")[kind] for (kind,) in tx.rows("steer.kinds", gate)}
    names: dict[str, set[str]] = {}
    for (stamp,) in tx.rows("steer.stamps"):  # runs that no turn has looked at yet, and gates that were swept
        for each in Stamp.decode(stamp).gates:
            names.setdefault(each.name, set()).add(each.kind)
    for (declaration,) in tx.rows("steer.declarations"):
        for declared in msgspec.json.decode(declaration).get("gates", ()):
            names.setdefault(declared["name"], set()).add(declared["kind"])
    found |= names.get(gate, set())
    if found:
        return found
    known = (
        ", ".join(sorted(names)[:10])
        or "none: no run and no worker here has a workflow with a limit or a rate"
    )
    raise GateNotFound(f"no gate is called {shown(gate)}; known: {known}")
