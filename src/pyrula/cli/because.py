"""The answer of `why`, for somebody who was woken up by a pager: what holds the run back, by how much, what
to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from shlex import quote
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.text import Text

from pyrula.cli.output import ago, as_arguments, clock_time, key_text, line, state
from pyrula.model.run import FINAL, Run

Reason = Mapping[str, Any]
HOLDERS: Final = 5
"""So many of a gate's holders are shown."""


class Said(NamedTuple):
    """A reason in words: what holds it back, more about that, and what would change it."""

    what: str
    more: tuple[str, ...] = ()
    remedy: str = ""


class Known(NamedTuple):
    """What reasons are told by. runs: the holders that were looked up; at: now."""

    runs: Mapping[str, Run]
    at: datetime


def holders_of(answer: Mapping[str, Any]) -> list[str]:
    """The run ids that an explanation of `answer` would like to know more about."""
    return [run_id for reason in answer["reasons"] for run_id in list(reason.get("holders", ()))[:HOLDERS]]


def explain(out: Console, run: Run | None, answer: Mapping[str, Any], known: Known) -> None:
    """Print why the run is not executing. None: a record of a stream, of which no run could be made."""
    if run is None:
        _print_refused(out, answer, known)
        return
    out.print(_headline(run, known.at))
    out.print()
    if run.state in FINAL:
        _print_ending(out, run)
        for reason in answer["reasons"]:
            said = _SAY[reason["kind"]](reason, known)
            out.print(Text.assemble(("  ● ", "red"), said.what), soft_wrap=True)
        return
    if run.state == "executing":
        since = ago(run.started_at, known.at)
        out.print(
            f"It is executing on worker {run.worker_id or answer['worker_id']}, first started {since}.",
            markup=False,
        )
        for reason in answer["reasons"]:
            out.print(Text.assemble(("  ● ", "red"), _SAY[reason["kind"]](reason, known).what))
        return
    if not answer["reasons"]:
        out.print("Nothing holds it back: the next turn of a worker with room starts it.", markup=False)
        return
    out.print("It waits for:" if run.state == "parked" else "It does not start, because:", style="bold")
    for reason in sorted(answer["reasons"], key=_room_behind):
        said = _SAY[reason["kind"]](reason, known)
        mark = ("  ○ ", "dim") if _room_behind(reason) else ("  ● ", "red")
        out.print(Text.assemble(mark, said.what), soft_wrap=True)
        for more in said.more:
            out.print(Text(f"      {more}", "dim"), soft_wrap=True)
        if said.remedy:  # on one line, so that it can be copied
            remedy = said.remedy.replace("{run_id}", run.run_id)
            out.print(Text.assemble("      ", ("→ ", "green"), remedy), soft_wrap=True)
    out.print()
    for text in _when(run, answer, known.at):
        out.print(text, markup=False, soft_wrap=True)


def _room_behind(reason: Reason) -> bool:
    """Whether a gate has room, and only the runs before it in line will use that up: what is full is told
    first.
    """
    if reason["kind"] == "limit":
        return bool(reason["in_use"] < reason["max"])
    return reason["kind"] == "rate" and bool(reason["tokens"])


def _headline(run: Run, at: datetime) -> Text:
    parts = [
        f"{run.workflow}",
        f"attempt {run.attempt}",
        f"priority {run.priority}",
        f"submitted {ago(run.submitted_at, at)}",
    ]
    head = Text.assemble(("run ", "dim"), (run.run_id, "bold"), "  ", state(run.state))
    head.append("\n    " + " · ".join(parts), "dim")
    if run.keys:
        keys = ", ".join(f"{name} {key_text(key)}" for name, key in run.keys.items())
        head.append("\n    keys: " + keys, "dim")
    return head


def _print_refused(out: Console, answer: Mapping[str, Any], known: Known) -> None:
    out.print(Text.assemble(("record ", "dim"), (answer["run_id"], "bold"), "  ", state(answer["state"])))
    out.print(f"    {answer['workflow']}", style="dim", markup=False)
    out.print("\nNo run could be made of it:", style="bold")
    for reason in answer["reasons"]:
        out.print(Text.assemble(("  ● ", "red"), _SAY[reason["kind"]](reason, known).what), soft_wrap=True)


def _print_ending(out: Console, run: Run) -> None:
    when = f" at {clock_time(run.finished_at)}" if run.finished_at else ""
    out.print(f"It is over: {run.state}{when}.", markup=False)
    if run.state == "completed":
        out.print(f"result: {line(run.result, 500)}", markup=False)
    elif run.error and "type" in run.error:
        out.print(f"{run.error['type']}: {run.error['message']}", markup=False, style="red")
        if run.error.get("traceback"):
            out.print(run.error["traceback"].rstrip(), markup=False, style="dim")
    if run.state != "completed":
        out.print(Text.assemble(("→ ", "green"), f"to take it up again: pyrula retry {run.run_id}"))


def _when(run: Run, answer: Mapping[str, Any], at: datetime) -> Iterator[str]:
    ahead = answer["ahead"]
    if run.state == "queued" and ahead is not None:
        count = (
            "nobody is"
            if ahead == 0
            else "1 run is"
            if ahead == 1
            else f"{ahead}{'+' if ahead >= 1000 else ''} runs are"
        )
        yield f"In the line of runs like it (same workflow, keys and priority) {count} before it."
    earliest = answer["earliest_start"]
    if earliest is not None:
        yield (
            f"Earliest start: {clock_time(earliest)}, {ago(earliest, at)}."
            if earliest > at
            else "Earliest start: now."
        )
    elif run.state == "queued":
        yield "Earliest start: not known; time alone does not free it."


def _gate(reason: Reason) -> str:
    if reason["gate"] == "slot":
        return "the slot that a run of its family holds"
    return f"gate {reason['gate']}, key {key_text(reason['key'])}"


def _of_gate(reason: Reason) -> str:
    return as_arguments(reason["gate"], reason["key"])


def _limit(reason: Reason, known: Known) -> Said:
    if _room_behind(reason):
        free = reason["max"] - reason["in_use"]
        return Said(f"{_gate(reason)}: {free} of {reason['max']} slots free, for the runs before it in line")
    held = [_holder(run_id, known) for run_id in reason["holders"][:HOLDERS]]
    if held and reason["in_use"] > len(held):
        held.append(f"and {reason['in_use'] - len(held)} more")
    more = [f"held by {each}" if number == 0 else f"        {each}" for number, each in enumerate(held)]
    what = f"{_gate(reason)}: full, {reason['in_use']} of {reason['max']} slots in use"
    if reason["gate"] == "slot":
        return Said(what, tuple(more))
    wider = f"pyrula override {_of_gate(reason)} --max {reason['max'] + 1} --for 3600"
    return Said(what, tuple(more), f"to let one more in: {wider}")


def _holder(run_id: str, known: Known) -> str:
    run = known.runs.get(run_id)
    if run is None:
        return run_id
    on = f" on {run.worker_id}" if run.worker_id else ""
    since = "" if run.started_at is None else f", started {ago(run.started_at, known.at)}"
    return f"{run_id} ({run.workflow}, {run.state}{on}{since})"


def _rate(reason: Reason, known: Known) -> Said:
    numbers = f"{reason['per_second']:g} starts/s, burst {reason['burst']}"
    if _room_behind(reason):
        return Said(f"{_gate(reason)}: {reason['tokens']} tokens ({numbers}), for the runs before it in line")
    following = reason["next_token_at"]
    when = "" if following is None else f"; the next comes {ago(following, known.at)}"
    faster = f"pyrula override {_of_gate(reason)} --per-second {reason['per_second'] * 2:g} --for 3600"
    return Said(f"{_gate(reason)}: no token left ({numbers}){when}", (), f"to let it go faster: {faster}")


def _pause(reason: Reason, known: Known) -> Said:
    until = reason["until"]
    how_long = (
        "until somebody resumes it"
        if until is None
        else f"until {clock_time(until)} ({ago(until, known.at)})"
    )
    if reason["by"] == "run":
        return Said(
            f"{_gate(reason)}: closed {how_long}",
            (f"by run {reason['run_id']}, which was told to come back later (RetryAfter)",),
            f"to go on now: pyrula resume {_of_gate(reason)}",
        )
    if reason["every_key"]:
        return Said(
            f"{_gate(reason)}: paused {how_long}",
            ("by an operator, for all keys of the gate",),
            f"to go on: pyrula resume {as_arguments(reason['gate'], None)}, or for this key alone: "
            f"pyrula resume {_of_gate(reason)}",
        )
    return Said(
        f"{_gate(reason)}: paused {how_long}",
        ("by an operator, for this key",),
        f"to go on: pyrula resume {_of_gate(reason)}",
    )


def _not_due(reason: Reason, known: Known) -> Said:
    until = reason["until"]
    when = "later" if until is None else f"{clock_time(until)} ({ago(until, known.at)})"
    if not reason.get("backs_off"):
        return Said(f"its time: it is not due before {when}")
    error = reason.get("error") or {}
    more = (f"its last attempt ended with {error.get('type')}: {error.get('message')}",) if error else ()
    return Said(f"its next attempt: it backs off until {when}", more, "to try now: pyrula retry {run_id}")


def _no_worker(reason: Reason, known: Known) -> Said:
    if "owner_of" in reason:
        return Said(
            f"no live worker owns partition {reason['owner_of']} for workflow {reason['workflow']} yet",
            ("the group hands a lost worker's partitions over when its session has ended",),
            "to start one: pyrula worker MODULE, with the module that declares it",
        )
    return Said(
        f"no live worker serves workflow {reason['workflow']}",
        ("none has registered it, or the heartbeats of those that did have lapsed",),
        "to start one: pyrula worker MODULE, with the module that declares it",
    )


def _held_back(reason: Reason, known: Known) -> Said:
    more = []
    for worker in reason["workers"]:
        by = [
            str(each.get("text", each)) if isinstance(each, dict) else str(each)
            for each in worker["held_back"] or ()
        ]
        more.append(f"{worker['worker_id']}: {'; '.join(by)}")
    return Said("every worker that serves it is held back by limits of its own", tuple(more))


def _partition_stopped(reason: Reason, known: Known) -> Said:
    return Said(
        f"partition {reason['partition']} has stopped at it, on {reason['worker_id']}: {reason['why']}"
    )


def _cancelling(reason: Reason, known: Known) -> Said:
    return Said("it is being cancelled: its worker was told, and its body has not ended yet")


def _set_aside(reason: Reason, known: Known) -> Said:
    error = reason.get("error") or {}
    return Said(
        "it is set aside: the code that is deployed can't replay its log",
        (error.get("message", "the replay met another step than the log holds"),),
        "deploy code that can replay it (ctx.patched), or: pyrula retry {run_id}",
    )


def _waiting_for(reason: Reason, known: Known) -> Said:
    until = reason["until"]
    limit = "" if until is None else f" until {clock_time(until)} ({ago(until, known.at)})"
    if reason["what"] == "sleep":
        return Said(f"time to pass: it sleeps{limit}")
    if reason["what"] == "child":
        return Said(
            f"its child {reason['run_id']} ({reason['name']}, {reason['state'] or 'not here'}){limit}"
        )
    sending = f"to send it: pyrula send-event {{run_id}} {quote(reason['name'])}, and what it is to be told"
    return Said(f"an event named {reason['name']!r}{limit}", (), sending)


_SAY: Final[dict[str, Callable[[Reason, Known], Said]]] = {
    "limit": _limit,
    "rate": _rate,
    "pause": _pause,
    "not_due": _not_due,
    "no_worker": _no_worker,
    "workers_held_back": _held_back,
    "cancelling": _cancelling,
    "set_aside": _set_aside,
    "partition_stopped": _partition_stopped,
    "waiting_for": _waiting_for,
}

__all__ = ["Known", "explain", "holders_of"]
