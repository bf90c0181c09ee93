"""`limits`: what each worker's limiters allow, what they are held against, and how to change them, live."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from pyrula.cli.connect import AsJson, StoreUrl, ask, opened, run
from pyrula.cli.output import ago, bar, console, now, show, span, table
from pyrula.errors import NotJson
from pyrula.limiters.wire import changes_from_json, changes_to_json, config_to_json
from pyrula.model.number import read_number, read_whole
from pyrula.model.payload import parse
from pyrula.store.protocol import Store
from pyrula.workflows.client import WorkflowClient
from pyrula.workflows.client.limiting import unknown_worker

limits = typer.Typer(
    help="Worker-side limiters: see them, watch them, change them while workers run.", no_args_is_help=True
)
_NONE: Final = "none"
_COLUMNS: Final = ["worker", "level", "limits", "", "in use", "in this window", "held since"]

OneWorker = Annotated[str | None, typer.Argument(help="A worker's id; all live ones if left out.")]
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="WORKER_ID [LEVEL.LIMITABLE=LIMIT]...",
        help="LIMIT is AT_ONCE[,PER_WINDOW], or none: worker.workflow=5,50; of the machine one number: os.mem=90, "
        "os.disk:/=80.",
    ),
]
Edit = tuple[str, str, Any]
"""Level, limitable, and its limit as JSON has it; None drops it."""


@limits.command("get")
def get_limits(worker_id: OneWorker = None, *, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Show the limiters of live workers: each limit, what it is held against, and since when it holds."""
    found = ask(store, lambda client: seen(client.store, worker_id))
    show(found, as_json, lambda out: out.print(drawn(found, now())))


@limits.command("watch")
def watch_limits(
    worker_id: OneWorker = None,
    *,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 1.0,
    times: Annotated[int, typer.Option(min=0, help="So many looks; 0: until Ctrl-C.")] = 0,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """The same, live. With --json, or where there is no terminal, each change is printed; JSON is one line."""
    try:
        run(_watch(store, worker_id, every, times, as_json))
    except KeyboardInterrupt:
        return


@limits.command("set")
def set_limits(
    words: Words = None,
    *,
    everybody: Annotated[bool, typer.Option("--all", help="Every live worker; then no id is given.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Drop all limits first.")] = False,
    given: Annotated[
        str | None, typer.Option("--limits", help="All limits, as one JSON object; the others are dropped.")
    ] = None,
    poll_rate: Annotated[
        str | None, typer.Option("--poll-rate", help="LIMIT/SECONDS of a poller, such as 10/60; or none.")
    ] = None,
    check: Annotated[
        float | None, typer.Option("--check", help="Seconds between looks of a worker that is held back.")
    ] = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Change limits of a live worker: within a second, all or nothing. Those not named stay as they are."""
    fields = words or []
    worker_id = None if everybody or not fields else fields[0]
    if worker_id is None and not everybody:
        raise typer.BadParameter("which worker? Give its id (`pyrula limits get` lists them), or --all")
    edits = [_edit(field) for field in fields[0 if everybody else 1 :]]
    changes: dict[str, Any] = {}
    if poll_rate is not None:
        changes["task_poller_limiter"] = _poll_rate(poll_rate)
    if check is not None:
        changes["limiter_check_frequency"] = check
    if given is not None or clear:
        changes["limits"] = _edited({} if given is None else _object(given), edits)
    elif not edits and not changes:
        raise typer.BadParameter("what is to change? Give a limit, --limits, --clear, --poll-rate or --check")

    async def call(client: WorkflowClient) -> dict[str, Any]:
        wanted = await _wanted(client, worker_id, changes, edits)
        answers: dict[str, Any] = {}
        for name, arguments in wanted.items():
            answers |= await client.set_limiter_config(name, **arguments)
        return {name: config_to_json(config) for name, config in answers.items()}

    answers = ask(store, call)
    show(answers, as_json, lambda out: _tell(out, answers))


async def _wanted(
    client: WorkflowClient, worker_id: str | None, changes: dict[str, Any], edits: list[Edit]
) -> dict[str | None, Any]:
    """Per worker (None: all) what it is given; all of it is checked before the first is told."""
    if "limits" in changes or not edits:
        return {worker_id: changes_from_json(changes)}
    wanted: dict[str | None, Any] = {}
    for row in await seen(client.store, worker_id):
        arguments = changes_from_json({**changes, "limits": _edited(row.get("limits", {}), edits)})
        changes_to_json(arguments)
        wanted[row["worker_id"]] = arguments
    return wanted


async def seen(store: Store, worker_id: str | None) -> list[dict[str, Any]]:
    """What live workers say of their limiters. Raises `WorkerNotFound` for one that is not there."""
    live = [row for row in await store.workers() if row["alive"]]
    found = [row for row in live if worker_id in (None, row["worker_id"])]
    if worker_id is not None and not found:
        raise unknown_worker(worker_id, {row["worker_id"]: None for row in live})
    return [_of(row) for row in found]


def _of(row: Mapping[str, Any]) -> dict[str, Any]:
    facts = row["facts"]
    said = facts.get("limiters", {})
    return {
        "worker_id": row["worker_id"],
        "incarnation": row["incarnation"],
        **row["limiters"],
        "pending": row["limiters_pending"],
        "refused": said.get("refused"),
        "in_use": said.get("in_use", []),
        "held_back": facts.get("held_back", []),
        "held_since": facts.get("held_since"),
    }


def drawn(found: list[dict[str, Any]], at: datetime) -> Group | Text:
    """Tables and notes for people, as of `at`."""
    if not found:
        return Text("no worker is alive")
    rows: list[tuple[Any, ...]] = []
    notes: list[Text] = []
    for worker in found:
        rows += _rows(worker, at)
        notes += _notes(worker)
    return Group(table(_COLUMNS, rows), *notes)


def _rows(worker: Mapping[str, Any], at: datetime) -> list[tuple[Any, ...]]:
    since = worker["held_since"]
    held = {(one["level"], one["limitable"], one["measure"]) for one in worker["held_back"]}
    when = "" if since is None else span(max(0.0, (at - datetime.fromisoformat(since)).total_seconds()))
    name = worker["worker_id"]
    rows: list[tuple[Any, ...]] = []
    for each in worker["in_use"]:
        level, limitable = each["level"], each["limitable"]
        holds = any((level, limitable, measure) in held for measure in ("os", "concurrency", "frequency"))
        rows.append(
            (name, level, limitable, *_use(each), _window(each, at), Text(when if holds else "", "red"))
        )
        name = ""
    rate = worker.get("task_poller_limiter")
    if rate is not None:
        pace = f"{rate['limit']} polls in {span(rate['time_window'])}"
        holds = any(level == "poller" for level, _, _ in held)
        rows.append((name, "poller", "workflow", "", pace, "", Text(when if holds else "", "red")))
    return rows or [(name, "", "no limits", "", "", "", "")]


def _use(each: Mapping[str, Any]) -> tuple[Any, str]:
    used, most = each["in_use"], each["max"]
    return ("", f"{used:g}") if most is None else (bar(used, most), f"{used:g} of {most:g}")


def _window(each: Mapping[str, Any], at: datetime) -> str:
    often = each.get("max_per_window")
    if often is None:
        return ""
    ends = datetime.fromisoformat(each["window_ends_at"])
    if ends <= at:  # it said so in a window that is over
        return f"0 of {often}"
    return f"{each['in_window']} of {often}, ends {ago(ends, at)}"


def _notes(worker: Mapping[str, Any]) -> list[Text]:
    notes = []
    if worker["pending"]:
        notes.append(Text(f"{worker['worker_id']}: a change is on its way to it", "yellow"))
    if worker["refused"]:
        notes.append(
            Text(f"{worker['worker_id']} could not take up the last change: {worker['refused']}", "red")
        )
    if worker["held_back"]:
        why = "; ".join(str(one["text"]) for one in worker["held_back"])
        notes.append(Text(f"{worker['worker_id']} is held back by {why}", "red"))
    return notes


async def _watch(url: str | None, worker_id: str | None, every: float, times: int, as_json: bool) -> None:
    async with opened(url) as store:
        looks = 0
        if as_json or not sys.stdout.isatty():
            before: list[dict[str, Any]] | None = None
            while True:
                found = await seen(store, worker_id)
                if found != before:
                    _print(found, as_json)
                before, looks = found, looks + 1
                if looks == times:
                    return
                await asyncio.sleep(every)
        with Live(console=console(), auto_refresh=False) as live:
            while True:
                live.update(drawn(await seen(store, worker_id), now()), refresh=True)
                looks += 1
                if looks == times:
                    return
                await asyncio.sleep(every)


def _print(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        sys.stdout.flush()
    else:
        console().print(drawn(found, now()))


def _edited(limits: Mapping[str, Any], edits: list[Edit]) -> dict[str, dict[str, Any]]:
    made = {level: dict(given) for level, given in limits.items()}
    for level, limitable, limit in edits:
        of_level = made.setdefault(level, {})
        of_level.pop(limitable, None)
        if limit is not None:
            of_level[limitable] = limit
    return {level: given for level, given in made.items() if given}


def _edit(field: str) -> Edit:
    """`worker.workflow=5,50` as (level, limitable, limit). Raises `typer.BadParameter`."""
    where, found, text = field.rpartition("=")
    level, dot, limitable = where.partition(".")
    if not found or not dot or not limitable:
        raise typer.BadParameter(f"{field!r} is no LEVEL.LIMITABLE=LIMIT, such as worker.workflow=5,50")
    if text == _NONE:
        return level, limitable, None
    numbers = [_number(field, part) for part in text.split(",")]
    if level == "os":
        return level, limitable, numbers[0] if len(numbers) == 1 else numbers
    return level, limitable, [*numbers, None] if len(numbers) == 1 else numbers


def _number(field: str, text: str) -> int | float | None:
    if text.strip() == _NONE:
        return None
    try:
        return read_whole(text)
    except ValueError:
        pass
    try:
        return read_number(text)
    except ValueError:
        raise typer.BadParameter(f"{field!r}: {text!r} is no number; write a number, or none") from None


def _poll_rate(text: str) -> dict[str, Any] | None:
    if text == _NONE:
        return None
    limit, _, seconds = text.partition("/")
    try:
        return {"limit": read_whole(limit), "time_window": read_number(seconds)}
    except ValueError:
        raise typer.BadParameter(
            f"--poll-rate {text!r}: write LIMIT/SECONDS, such as 10/60, or none"
        ) from None


def _object(text: str) -> dict[str, Any]:
    try:
        found = parse(text, "--limits")
    except NotJson as error:
        raise typer.BadParameter(str(error), param_hint="--limits") from None
    if not isinstance(found, dict) or not all(isinstance(given, dict) for given in found.values()):
        raise typer.BadParameter('--limits is an object of levels: {"worker": {"workflow": [5, 50]}}')
    return found


def _tell(out: Console, answers: Mapping[str, Any]) -> None:
    for name, config in answers.items():
        limits = config["limits"]
        text = f"limits {msgspec.json.encode(limits).decode()}" if limits else "no limits"
        rate = config["task_poller_limiter"]
        more = f", {rate['limit']} polls in {rate['time_window']:g} s" if rate else ""
        out.print(f"{name}: {text}{more}, looks every {config['limiter_check_frequency']:g} s", markup=False)
    if not answers:
        out.print("no worker is alive")
