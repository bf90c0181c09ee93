"""What an operator changes: cancel, retry, flush, pause, resume, override, restamp. At once, for queued runs
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from pyrula.cli.connect import WRONG_USE, App, AsJson, StoreUrl, ask
from pyrula.cli.output import Standing, as_arguments, show, shown_override, span
from pyrula.errors import RunNotFound
from pyrula.workflows.client import WorkflowClient

_MOST_LEFT: Final = 5
"""Keys that are named of those with an override or a pause of their own."""

RunIds = Annotated[list[str], typer.Argument(help="One run id or several.")]
GateName = Annotated[
    str, typer.Argument(help="The gate's name, such as sync_account.limit; `pyrula gates` lists them.")
]
OneKey = Annotated[str | None, typer.Option("--key", help="Of this key only; all keys if left out.")]
Seconds = Annotated[float | None, typer.Option("--for", help="Seconds until it lapses by itself.")]


def cancel(run_ids: RunIds, *, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Cancel runs, and their children. One that executes ends once its body has stopped."""

    async def call(client: WorkflowClient) -> dict[str, str]:
        return {run_id: await _told(client.cancel(run_id), "cancelling", "had ended") for run_id in run_ids}

    _tell_each(ask(store, call), as_json)


def retry(run_ids: RunIds, *, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Take up again runs that failed, were cancelled, expired or were set aside. Steps that succeeded are
    kept.
    """

    async def call(client: WorkflowClient) -> dict[str, str]:
        return {
            run_id: await _told(client.retry(run_id), "queued again", "left as it is: nothing to retry")
            for run_id in run_ids
        }

    _tell_each(ask(store, call), as_json)


def flush(
    workflow: Annotated[str, typer.Argument(help="The workflow's name.")],
    key: Annotated[str, typer.Argument(help="The buffer's key; `pyrula buffers` lists them.")] = "",
    *,
    app: App = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Fire a buffer now, and print the run's id."""
    made = ask(store, lambda client: client.flush(workflow, key), app=app)
    show(
        {"run_id": made},
        as_json,
        lambda out: out.print(made or f"nothing is buffered for key {key!r}", markup=False),
    )
    if made is None:
        raise typer.Exit(WRONG_USE)


def pause(
    gate: GateName,
    *,
    key: OneKey = None,
    seconds: Seconds = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Start no run of a gate until `resume`, or for --for seconds. What executes goes on."""
    ask(store, lambda client: client.pause(gate, key, seconds))
    until = (
        f"for {span(seconds)}" if seconds is not None else f"until: pyrula resume {as_arguments(gate, key)}"
    )
    _tell(gate, key, f"paused {until}", as_json)


def resume(gate: GateName, *, key: OneKey = None, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """End a pause of a gate. Keys that were paused by themselves stay so, and are named."""

    async def call(client: WorkflowClient) -> Sequence[Standing]:
        await client.resume(gate, key)
        return await _standing(client, gate, "pause") if key is None else ()

    _tell(gate, key, "resumed", as_json, ask(store, call))


def override(
    gate: GateName,
    *,
    max: Annotated[int | None, typer.Option("--max", help="Of a limit: so many executing at once.")] = None,
    per_second: Annotated[float | None, typer.Option(help="Of a rate: so many starts per second.")] = None,
    burst: Annotated[
        int | None, typer.Option(help="Of a rate: so many at once; default the rate, rounded up.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take the override back.")] = False,
    key: OneKey = None,
    seconds: Seconds = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Change a gate's number, for all its keys or one; it beats what runs are stamped with, and outlives
    deploys.
    """
    chosen = [
        name
        for name, is_given in (
            ("--max", max is not None),
            ("--per-second", per_second is not None),
            ("--clear", clear),
        )
        if is_given
    ]
    if len(chosen) != 1:
        raise typer.BadParameter(
            f"give one of --max, --per-second and --clear, not {' and '.join(chosen) or 'none'}"
        )

    async def call(client: WorkflowClient) -> tuple[str, list[Standing]]:
        if max is not None:
            await client.override_limit(gate, key, max=max, expires_in=seconds)
            return f"at most {max} at once{_lapse(seconds)}", []
        if per_second is not None:
            await client.override_rate(gate, key, per_second=per_second, burst=burst, expires_in=seconds)
            return f"{per_second:g} starts per second{_lapse(seconds)}", []
        await client.clear_override(gate, key)
        return _what_holds_now(await _standing(client, gate, "limit", "rate"), key)

    now, left = ask(store, call)
    _tell(gate, key, now, as_json, left)


def _lapse(seconds: float | None) -> str:
    """When what the client took lapses. What it refuses, such as infinity, has no span."""
    return "" if seconds is None else f", for {span(seconds)}"


def _what_holds_now(standing: list[Standing], key: str | None) -> tuple[str, list[Standing]]:
    """Once an override is taken back: what one key goes by, or that all do but those with one of their own."""
    if key is None:
        return "as declared", standing
    of_all = [each for each in standing if each["key"] is None]
    return (f"as {shown_override(of_all[0])} for all keys says" if of_all else "as declared"), []


def restamp(
    workflow: Annotated[str, typer.Argument(help="The workflow's name.")],
    *,
    app: App = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Give the queued runs of a workflow its current declaration."""
    count = ask(store, lambda client: client.restamp(workflow), app=app)
    show(
        {"restamped": count},
        as_json,
        lambda out: out.print(f"{count} queued runs of {workflow} restamped", markup=False),
    )


async def _told(call: Any, yes: str, no: str) -> str:
    try:
        return yes if await call else no
    except RunNotFound:
        return "not found"


def _tell_each(told: dict[str, str], as_json: bool) -> None:
    lines = "\n".join(f"{run_id}  {what}" for run_id, what in told.items())
    show(told, as_json, lambda out: out.print(lines, markup=False))
    if "not found" in told.values():
        raise typer.Exit(WRONG_USE)


async def _standing(client: WorkflowClient, gate: str, *kinds: str) -> list[Standing]:
    """What is in force at a gate, of these kinds; an exception to a pause is none."""
    return [
        each
        for each in await client.store.overrides()
        if each["gate"] == gate and each["kind"] in kinds and not each.get("open")
    ]


def _tell(gate: str, key: str | None, what: str, as_json: bool, left: Sequence[Standing] = ()) -> None:
    """left: what still stands for single keys, though it was taken back for all."""
    whose = "all keys" if key is None else f"key {key!r}"
    lines = [f"{gate}, {whose}: {what}"]
    for each in left[:_MOST_LEFT]:
        undo = "resume" if each["kind"] == "pause" else "override --clear"
        lines.append(
            f"    but key {each['key']!r} has {shown_override(each)} of its own: "
            f"pyrula {undo} {as_arguments(gate, each['key'])}"
        )
    if len(left) > _MOST_LEFT:
        lines.append(f"    and {len(left) - _MOST_LEFT} more keys: pyrula gates {as_arguments(gate, None)}")
    told: dict[str, Any] = {"gate": gate, "key": key, "now": what}
    if left:
        told["keys_of_their_own"] = [each["key"] for each in left]
    show(told, as_json, lambda out: out.print("\n".join(lines), markup=False, soft_wrap=True))
