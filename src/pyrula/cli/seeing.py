"""`runs`, `why`, `gates`, `buffers`: what an operator looks at first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from pyrula.cli.because import Known, explain, holders_of
from pyrula.cli.connect import AsJson, StoreUrl, ask
from pyrula.cli.output import (
    Standing,
    ago,
    bar,
    clock_time,
    key_text,
    line,
    now,
    show,
    shown_override,
    span,
    state,
    table,
)
from pyrula.errors import GateNotFound, WorkflowNotFound, shown
from pyrula.model.run import Run
from pyrula.store.protocol import Gate, Pause
from pyrula.workflows.client import RunPage, WorkflowClient


def runs(
    *,
    workflow: Annotated[str | None, typer.Option(help="Of this workflow only.")] = None,
    in_state: Annotated[
        str | None,
        typer.Option("--state", help="queued, executing, parked, completed, failed, cancelled or expired."),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Of this key only.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="So many at most.")] = 30,
    cursor: Annotated[str | None, typer.Option(help="Go on after an earlier page.")] = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    page: RunPage = ask(store, lambda client: client.runs(workflow, in_state, key, limit, cursor))
    at = now()

    def render(out: Console) -> None:
        if not page:
            out.print("no runs" + (" like that" if workflow or in_state or key is not None else ""))
            return
        columns = [
            "run",
            "workflow",
            "state",
            "keys",
            "attempt",
            "submitted",
            "took",
            "params, or what it ended with",
        ]
        out.print(table(columns, [_run_row(run, at) for run in page], right=["attempt"]))
        if page.cursor is not None:
            out.print(f"older ones: --cursor {page.cursor}", style="dim")

    show({"runs": list(page), "cursor": page.cursor}, as_json, render)


def _run_row(run: Run, at: Any) -> tuple[Any, ...]:
    took = "-"
    if run.started_at is not None:
        took = span(max(0.0, ((run.finished_at or at) - run.started_at).total_seconds()))
    keys = ", ".join(dict.fromkeys(key_text(key) for key in run.keys.values()))
    over = run.error if run.state != "executing" else None  # then it is of an earlier attempt
    ended = f"{over['type']}: {over['message']}" if over and "type" in over else None
    what = Text(line(ended), "red") if ended else line(run.params)
    return (
        run.run_id,
        run.workflow,
        state(run.state),
        keys,
        str(run.attempt),
        ago(run.submitted_at, at),
        took,
        what,
    )


def why(
    run_id: Annotated[str, typer.Argument(help="The run's id.")],
    *,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Tell why a run is not executing: each gate's numbers and holders, its place in line, and when."""

    async def call(client: WorkflowClient) -> tuple[Run | None, dict[str, Any], dict[str, Run]]:
        answer, run = await client.why(run_id), await client.store.get(run_id)
        holders = [await client.store.get(holder) for holder in holders_of(answer)]
        return run, answer, {holder.run_id: holder for holder in holders if holder is not None}

    run, answer, holders = ask(store, call)
    show(answer, as_json, lambda out: explain(out, run, answer, Known(holders, now())))


def gates(
    name: Annotated[str | None, typer.Argument(help="One gate's name; all if left out.")] = None,
    *,
    key: Annotated[str | None, typer.Option(help="Of this key only.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="So many at most.")] = 1000,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show each gate: slots or tokens, who holds them, how many runs wait, pauses and overrides."""

    async def call(client: WorkflowClient) -> tuple[list[Gate], list[Standing]]:
        found = await client.gates(name, key, limit)
        if name is not None and not found:
            await _check_gate(client, name)
        return found, await client.store.overrides()

    found, standing = ask(store, call)
    unseen = _unseen(standing, found, name, key) if len(found) < limit else []

    def render(out: Console) -> None:
        if not found:
            out.print("no gates" + (" like that" if name or key is not None else " in use"))
        else:
            columns = ["gate", "key", "", "in use", "queued", "next start", "note"]
            out.print(table(columns, [gate_row(gate) for gate in found], right=["queued"]))
        if unseen:
            out.print("\nIn force for what no run has used yet:", style="bold")
            out.print(table(["gate", "key", "what", "until"], [_standing_row(each) for each in unseen]))

    show(found, as_json, render)


def _unseen(
    standing: Sequence[Standing], found: Sequence[Gate], name: str | None, key: str | None
) -> list[Standing]:
    """Overrides and pauses that no gate of the list shows: of a key that is mistyped, say."""
    counted = {(gate.name, gate.key) for gate in found} | {(gate.name, None) for gate in found}
    return [
        each
        for each in standing
        if (each["gate"], each["key"]) not in counted
        and name in (None, each["gate"])
        and key in (None, each["key"])
        and not each.get("open")
    ]


def _standing_row(each: Standing) -> tuple[Any, ...]:
    ends = each["expires_at"]
    until = "it is taken back" if ends is None else clock_time(ends)
    whose = "all keys" if each["key"] is None else key_text(each["key"])
    return each["gate"], whose, shown_override(each), until


async def _check_gate(client: WorkflowClient, name: str) -> None:
    """Raise `GateNotFound` unless it is in use for another key, or declared and not used yet."""
    declared = [
        gate["name"] for row in await client.store.workflows() for gate in row["declaration"]["gates"]
    ]
    if name not in declared and not await client.gates(name, limit=1):
        known = ", ".join(sorted(set(declared))[:10]) or "none is declared"
        raise GateNotFound(f"no gate is called {shown(name)}; known: {known}")


def gate_row(gate: Gate) -> tuple[Any, ...]:
    """A gate as a row: its bar is red when it lets nobody in."""
    if gate.kind == "limit":
        most = gate.max
        room = Text("") if most is None else bar(gate.in_use, most)
        use = f"{gate.in_use} of {most} slots" if most is not None else f"{gate.in_use} slots"
    else:
        burst, left = gate.burst or 0, gate.tokens or 0
        room = bar(burst - left, burst)
        use = f"{left} of {burst} tokens, {gate.per_second or 0:g}/s"
    following = "-" if gate.next_start_at is None else _soon(gate.next_start_at)
    queued = Text(str(gate.queued), "yellow" if gate.queued else "dim")
    return gate.name, key_text(gate.key), room, use, queued, following, _notes(gate)


def _soon(instant: datetime) -> str:
    at = now()
    return "now" if instant <= at else ago(instant, at)


def _notes(gate: Gate) -> Text:
    notes = [(_pause(each), "bold red") for each in gate.pauses]
    if gate.override:
        notes += [_override(kind, held) for kind, held in gate.override.items() if kind != "pause"]
    if gate.holders:
        notes.append((f"held by {_some(gate.holders)}", "dim"))
    return Text("; ").join(Text(*note) for note in notes)


def _pause(pause: Pause) -> str:
    until = "resumed" if pause.until is None else clock_time(pause.until)
    if pause.by == "run":
        return f"CLOSED by run {pause.run_id} (RetryAfter) until {until}"
    return f"PAUSED by an operator{', all keys,' if pause.every_key else ''} until {until}"


def _override(kind: str, held: dict[str, Any]) -> tuple[str, str]:
    what = f"max {held['max']}" if kind == "limit" else f"{held['per_second']:g}/s, burst {held['burst']}"
    return f"override {what} for {'all keys' if held['every_key'] else 'this key'}", "magenta"


def _some(names: Sequence[str], most: int = 2) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def _fires(due_at: datetime, at: datetime) -> str:
    late = (at - due_at).total_seconds()
    return ago(due_at, at) if late < 1 else f"overdue by {span(late)}: does a worker run?"


def buffers(
    workflow: Annotated[str | None, typer.Argument(help="Of this workflow; of all if left out.")] = None,
    *,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """List the buffers of events that have not fired yet."""

    async def call(client: WorkflowClient) -> list[dict[str, Any]]:
        found = await client.buffers(workflow)
        if workflow is not None and not found and await client.store.declaration(workflow) is None:
            raise WorkflowNotFound(f"no workflow {shown(workflow)}: no worker has registered one")
        return found

    found = ask(store, call)
    at = now()

    def render(out: Console) -> None:
        if not found:
            out.print("no events are buffered")
            return
        rows = [
            (
                each["workflow"],
                key_text(each["key"]),
                str(each["count"]),
                ago(each["opened_at"], at),
                _fires(each["due_at"], at),
            )
            for each in found
        ]
        out.print(table(["workflow", "key", "events", "first event", "fires"], rows, right=["events"]))

    show(found, as_json, render)
