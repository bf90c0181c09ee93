"""Sentences: the reasons of `why` as people read them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from pyrula.errors import shown

Reason = dict[str, Any]


def text(answer: dict[str, Any]) -> str:
    """All of a `why` in words."""
    state = answer["state"]
    if state not in ("queued", "parked", "executing"):
        return " ".join([f"It is over: {state}.", *(stopped(reason) for reason in answer["reasons"])])
    if state == "executing":
        told = ", which was told to cancel it and waits for its body to end" if answer["reasons"] else ""
        return f"It is executing on worker {answer['worker_id']}{told}."
    said = [_SAY[reason["kind"]](reason) for reason in answer["reasons"]]
    if answer["ahead"]:
        said.append(
            f"{_many(answer['ahead'])} like it {'is' if answer['ahead'] == 1 else 'are'} in line before it."
        )
    if answer["earliest_start"] is not None and said:
        said.append(f"The earliest it may start is {_time(answer['earliest_start'])}.")
    return " ".join(said) or "Nothing is in its way: the next turn of a worker with room starts it."


def _many(count: int) -> str:
    return f"{count} run" if count == 1 else f"{count} runs" if count < 1000 else "1000 runs or more"


def _time(at: datetime | None) -> str:
    return "further notice" if at is None else at.isoformat().replace("+00:00", "Z")


def _gate(reason: Reason) -> str:
    if reason["gate"] == "slot":
        return "The slot that a run of its family holds"
    return f"Gate {reason['gate']}" + (f" for key {reason['key']!r}" if reason["key"] else "")


def _limit(reason: Reason) -> str:
    holders = ", ".join(reason["holders"][:5]) + (", …" if len(reason["holders"]) > 5 else "")
    by = f", by {holders}" if holders else ""
    if reason["in_use"] >= reason["max"]:
        return f"{_gate(reason)} is full: {reason['in_use']} of {reason['max']} in use{by}."
    used = f"{reason['in_use']} of {reason['max']} in use{by}"
    return f"{_gate(reason)} has room, {used}, for those before it in line."


def _rate(reason: Reason) -> str:
    tokens = (
        "has no token left" if not reason["tokens"] else f"has {reason['tokens']} tokens, for those before it"
    )
    return f"{_gate(reason)} {tokens}; the next comes at {_time(reason['next_token_at'])}."


def _pause(reason: Reason) -> str:
    until = _time(reason["until"])
    if reason["by"] == "run":
        by = f"by run {reason['run_id']}, which was told to come back later (RetryAfter)"
        return f"{_gate(reason)} is closed until {until} {by}."
    whose = ", all its keys," if reason["every_key"] else ""
    return f"{_gate(reason)} is paused{whose} by an operator until {until}."


def _not_due(reason: Reason) -> str:
    if not reason.get("backs_off"):
        return f"It is not due until {_time(reason['until'])}."
    error = reason.get("error")
    ended = f": its last attempt ended with {error['type']}: {shown(error['message'])}" if error else ""
    return f"It backs off before its next attempt until {_time(reason['until'])}{ended}."


def stopped(reason: Reason) -> str:
    """A partition that has stopped at a record."""
    return (
        f"Partition {reason['partition']} has stopped at it, on worker {reason['worker_id']}: {reason['why']}"
    )


def _no_worker(reason: Reason) -> str:
    if "owner_of" in reason:
        return (
            f"No live worker owns partition {reason['owner_of']} for workflow {reason['workflow']!r} yet: start "
            "one that has it, or wait for the group to hand the partition over."
        )
    return f"No live worker serves workflow {reason['workflow']!r}: start one that has it."


def _held_back(reason: Reason) -> str:
    workers = []
    for worker in reason["workers"][:5]:
        what = worker["held_back"]
        by = [str(one.get("text", one)) if isinstance(one, dict) else str(one) for one in what]
        workers.append(f"{worker['worker_id']} by {', '.join(by)}")
    return f"Every worker that serves it is held back by its own limits: {'; '.join(workers)}."


def _set_aside(reason: Reason) -> str:
    message = (reason["error"] or {}).get("message", "its replay met another step than its log holds")
    return f"It is set aside: {message}. Retry it, or deploy code that can replay its log."


def _waiting_for(reason: Reason) -> str:
    until = "" if reason["until"] is None else f" until {_time(reason['until'])}"
    match reason["what"]:
        case "sleep":
            return f"It sleeps{until}."
        case "child":
            return (
                f"It waits for its child {reason['run_id']}, which is {reason['state'] or 'not here'}{until}."
            )
        case _:
            return f"It waits for the event {reason['name']!r}{until}."


_SAY: dict[str, Callable[[Reason], str]] = {
    "limit": _limit,
    "rate": _rate,
    "pause": _pause,
    "not_due": _not_due,
    "no_worker": _no_worker,
    "workers_held_back": _held_back,
    "set_aside": _set_aside,
    "waiting_for": _waiting_for,
}
