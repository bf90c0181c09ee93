"""`submit`, `trigger` and `send-event`: runs and events from a shell."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

import msgspec
import typer

from pyrula.cli.connect import App, AsJson, StoreUrl, ask
from pyrula.cli.output import console, line, show
from pyrula.errors import NotJson
from pyrula.model.payload import parse
from pyrula.workflows.client import WorkflowClient

_PATIENCE_SECONDS: Final = 3.0
"""After which `--wait` says on stderr what it waits for."""

Fields = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME=TEXT | NAME:=JSON]...", help="Parameters: tenant_id=acme count:=3 tags:='[\"a\"]'."
    ),
]


def submit(
    workflow: Annotated[str, typer.Argument(help="The workflow's name.")],
    fields: Fields = None,
    *,
    params: Annotated[str | None, typer.Option("--params", help="Parameters as one JSON object.")] = None,
    run_id: Annotated[
        str | None, typer.Option(help="Your own id: given twice with the same params it is one run.")
    ] = None,
    priority: Annotated[int | None, typer.Option(help="1 (first) to 5 (last).")] = None,
    delay: Annotated[float | None, typer.Option(help="Seconds until it may start.")] = None,
    expires_in: Annotated[
        float | None, typer.Option(help="Drop it if it has not started within so many seconds.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the result and print it; a failed run exits 1.")
    ] = False,
    timeout: Annotated[float | None, typer.Option(help="Seconds to wait at most, with --wait.")] = None,
    app: App = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Submit a run, and print its id."""
    given = _together(params, fields, "--params")

    async def call(client: WorkflowClient) -> dict[str, Any]:
        made = await client.submit(
            workflow, given, run_id=run_id, priority=priority, delay=delay, expires_in=expires_in
        )
        return {"run_id": made} | ({"result": await _awaited(client, made, timeout)} if wait else {})

    answer = ask(store, call, app=app)
    show(
        answer,
        as_json,
        lambda out: out.print(_text(answer["result"]) if wait else answer["run_id"], markup=False),
    )


async def _awaited(client: WorkflowClient, run_id: str, timeout: float | None) -> Any:
    """The result, and on stderr what it waits for if it is long in coming: a worker, perhaps, that nobody started.

    Raises like `client.result`.
    """
    waiting = asyncio.ensure_future(client.result(run_id, timeout))
    try:
        ended, _ = await asyncio.wait((waiting,), timeout=_PATIENCE_SECONDS)
        if not ended:
            console(stderr=True).print(
                f"waiting for run {run_id}: {await _why(client, run_id)}", markup=False
            )
        return await waiting
    except TimeoutError:
        raise TimeoutError(
            f"run {run_id} is not over after {timeout:g} s, and goes on: {await _why(client, run_id)}"
        ) from None
    finally:
        waiting.cancel()


async def _why(client: WorkflowClient, run_id: str) -> str:
    return str((await client.why(run_id))["text"])


def trigger(
    workflow: Annotated[str, typer.Argument(help="The workflow's name.")],
    fields: Fields = None,
    *,
    event: Annotated[str | None, typer.Option("--event", help="The event as one JSON object.")] = None,
    event_id: Annotated[
        str | None, typer.Option(help="Your own id: given twice the event counts once.")
    ] = None,
    app: App = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Send an event to a workflow's buffer; prints the run's id if it completes a batch."""
    given = _together(event, fields, "--event")
    made = ask(store, lambda client: client.trigger(workflow, given, event_id=event_id), app=app)
    show({"run_id": made}, as_json, lambda out: out.print(made or "buffered", markup=False))


def send_event(
    run_id: Annotated[str, typer.Argument(help="The run's id.")],
    name: Annotated[str, typer.Argument(help="The name that it waits for.")],
    fields: Fields = None,
    *,
    payload: Annotated[
        str | None, typer.Option("--payload", help="What it is told, as JSON; default null.")
    ] = None,
    event_id: Annotated[
        str | None, typer.Option(help="Your own id: given twice the event counts once.")
    ] = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Send an event to a run that waits for it, or will: an approval, say."""
    given = _together(payload, fields, "--payload") if fields else _json(payload, "--payload", None)
    ask(store, lambda client: client.send_event(run_id, name, given, event_id=event_id))
    show({"sent": True}, as_json, lambda out: out.print("sent", markup=False))


def _together(text: str | None, fields: list[str] | None, option: str) -> dict[str, Any]:
    """The JSON object of `option`, and the fields over it. Raises `typer.BadParameter`."""
    given = _json(text, option, {})
    if not isinstance(given, dict):
        raise typer.BadParameter(
            f"{line(given)} is no JSON object; write {option} '{{\"name\": 1}}'", param_hint=option
        )
    for field in fields or ():
        name, found, value = field.partition("=")
        if not found or not name.rstrip(":"):
            raise typer.BadParameter(f"{field!r} is neither NAME=TEXT nor NAME:=JSON")
        if name.endswith(":"):
            try:
                given[name[:-1]] = parse(value, name[:-1])
            except NotJson as error:
                raise typer.BadParameter(f"{error}; for text write {name[:-1]}={value}") from None
        else:
            given[name] = value
    return given


def _json(text: str | None, option: str, default: Any) -> Any:
    """The value of an option that is JSON. Raises `typer.BadParameter`."""
    try:
        return default if text is None else parse(text, option)
    except NotJson as error:
        raise typer.BadParameter(str(error).removeprefix(f"{option}: "), param_hint=option) from None


def _text(result: Any) -> str:
    return result if isinstance(result, str) else msgspec.json.format(msgspec.json.encode(result)).decode()
