"""Check: an audit. What is counted is counted anew, and every discrepancy is told in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyrula.model.gate import FOREVER
from pyrula.store.shard.overrides import Overrides
from pyrula.store.shard.tx import Tx

_MOST: Final = 100
"""Sentences of one kind: who has more has seen enough."""


def check(tx: Tx) -> list[str]:
    """Compare counters with what they count, and tables with each other. An empty list: all is well."""
    found = [say(*row) for block, say in _CHECKS.items() for row in tx.rows(block, _MOST)]
    return found + _never_woken(tx)


def _never_woken(tx: Tx) -> list[str]:
    """Rate gates at which lanes wait, and nothing will ever have anybody look."""
    overrides = Overrides.load(tx)
    return [
        f"{_gate(name, key)} has {waiting} lanes waiting and neither a wake time nor anybody told to look"
        for name, key, waiting, paused in tx.rows("check.asleep", _MOST)
        if max(paused, overrides.paused_until(name, key)) < FOREVER
    ]


def _gate(name: str, key: str) -> str:
    return f"gate {name} (key {key!r})"


def _in_use(name: str, key: str, in_use: int, slots: int) -> str:
    return f"{_gate(name, key)} counts {in_use} in use, and {slots} runs hold a slot of it"


def _orphan_slot(gate: bytes, seq: int) -> str:
    return f"run number {seq} holds a slot of gate {gate.hex()}, which is not there"


def _idle_slot(name: str, key: str, run_id: str, state: str, parked: str | None) -> str:
    what = f"parked ({parked})" if parked else state
    return f"{_gate(name, key)} has a slot taken by run {run_id}, which does not execute: it is {what}"


def _lease(run_id: str, state: str, parked: str | None, queued: int, worker: str | None) -> str:
    wrong = [
        f"is {state}" if state != "open" else "",
        f"is parked ({parked})" if parked else "",
        "is in the queue as well" if queued else "",
        "has a lease of a worker that is not registered" if worker is None else "",
    ]
    return f"run {run_id} is leased, and {', '.join(each for each in wrong if each)}"


def _gated(run_id: str, gated: int, slots: int) -> str:
    return f"run {run_id} took {gated} slots with its lease, and {slots} are noted as its own"


def _queue(seq: int, run_id: str | None, state: str | None, parked: str | None, elsewhere: int) -> str:
    if run_id is None:
        return f"the queue holds run number {seq}, which is not there"
    what = f"is {state}" if state != "open" else f"is parked ({parked})" if parked else ""
    if not what and elsewhere:
        what = "belongs to another lane, or has another stamp"
    return f"run {run_id} is in the queue, and {what or 'twice'}"


def _lost(run_id: str) -> str:
    return f"run {run_id} is open, and neither queued nor leased nor parked"


def _lane(lane: bytes, state: int, queued: int) -> str:
    states = ("empty", "ready", "waiting")
    runs = "runs are queued in it" if queued else "no run is queued in it"
    return f"lane {lane.hex()} is noted as {states[state]}, {runs}, and no bell has it looked at"


def _unknown_lane(lane: bytes, count: int) -> str:
    return f"lane {lane.hex()} holds {count} queued runs, no turn knows of it, and no bell has it looked at"


def _waiting(name: str, key: str, waiting: int, lanes: int) -> str:
    return f"{_gate(name, key)} counts {waiting} waiting lanes, and {lanes} wait there"


def _unit(unit: bytes, workflow: str, ready: int, lanes: int) -> str:
    return f"unit {unit.hex()} of workflow {workflow} counts {ready} ready lanes, and has {lanes}"


def _named(name: str, key: str, lanes: int, found: int) -> str:
    return f"{_gate(name, key)} counts {lanes} lanes that name it, and {found} do"


def _gone_gate(lane: bytes, gate: bytes) -> str:
    return f"lane {lane.hex()} names gate {gate.hex()}, which is not there"


def _kept_gate(name: str, key: str) -> str:
    return f"{_gate(name, key)} is named by no lane, and will not be swept: it is not noted as unused"


def _kept_unit(unit: bytes, workflow: str) -> str:
    return f"unit {unit.hex()} of workflow {workflow} has no lane, and will not be swept: it is not noted as unused"


def _unlisted_gate(name: str, key: str, there: bool) -> str:
    return (
        f"{_gate(name, key)} is {'not listed by its name' if there else 'listed by its name, and not there'}"
    )


def _unlisted_run(run_id: str | None, seq: int) -> str:
    return (
        f"run {run_id} is not listed by its key"
        if run_id
        else f"run {seq} is listed by its key, and not there"
    )


def _buffer(workflow: str, text: str, count: int, size: int, events: int, total: int) -> str:
    counted = f"counts {count} events and {size} bytes, and holds {events} and {total}"
    return f"the buffer of workflow {workflow} for key {text!r} {counted}"


def _stray_events(buffer: int, events: int) -> str:
    return f"{events} events are in buffer {buffer}, which is not there"


def _timer(run_id: str, parked: str) -> str:
    return f"run {run_id} is parked ({parked}) without a timer to end that"


def _wait(run_id: str, name: str, due: int) -> str:
    return f"run {run_id} waits for {name} until {due} without a timer to end that"


def _nothing(run_id: str) -> str:
    return f"run {run_id} is parked, and waits for nothing"


def _unheard(run_id: str, kind: str, what: str) -> str:
    return f"run {run_id} waits for {kind} {what}, which has {'ended' if kind == 'child' else 'come'}"


def _log(run_id: str, logged: int, last: int) -> str:
    return f"run {run_id} counts {logged} settled entries, and one has the number {last}"


_CHECKS: Final[dict[str, Callable[..., Any]]] = {
    "check.in_use": _in_use,
    "check.orphan_slots": _orphan_slot,
    "check.idle_slots": _idle_slot,
    "check.leases": _lease,
    "check.gated": _gated,
    "check.queue": _queue,
    "check.lost": _lost,
    "check.lanes": _lane,
    "check.unknown_lanes": _unknown_lane,
    "check.waiting": _waiting,
    "check.units": _unit,
    "check.named": _named,
    "check.gone_gates": _gone_gate,
    "check.kept_gates": _kept_gate,
    "check.kept_units": _kept_unit,
    "check.unlisted_gates": _unlisted_gate,
    "check.unlisted_runs": _unlisted_run,
    "check.buffers": _buffer,
    "check.stray_events": _stray_events,
    "check.timers": _timer,
    "check.waits": _wait,
    "check.nothing": _nothing,
    "check.unheard": _unheard,
    "check.logs": _log,
}
