"""The command table."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated, Any, Final

import typer

from pyrula.cli import auditing, demonstrating, limiting, seeing, serve, steering, submitting, top, working
from pyrula.cli.connect import report
from pyrula.errors import PyrulaError

_USAGE: Final[Any] = typer.BadParameter.__mro__[2]
"""ClickException: whatever is wrong with a command line. typer has no public name for it."""

app = typer.Typer(
    name="pyrula",
    help="Flow control for durable workflows. Exit codes: 0 done, 1 failed, 2 wrong use.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"pyrula {version('pyrula-workflows')}")
        raise typer.Exit(0)


@app.callback()
def _options(
    *,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


app.command("demo")(demonstrating.demo)
app.command("worker")(working.worker)
app.command("serve")(serve.serve)
app.command("submit")(submitting.submit)
app.command("trigger")(submitting.trigger)
app.command("send-event")(submitting.send_event)
app.command("runs")(seeing.runs)
app.command("why")(seeing.why)
app.command("gates")(seeing.gates)
app.command("buffers")(seeing.buffers)
app.command("cancel")(steering.cancel)
app.command("retry")(steering.retry)
app.command("flush")(steering.flush)
app.command("pause")(steering.pause)
app.command("resume")(steering.resume)
app.command("override")(steering.override)
app.command("restamp")(steering.restamp)
app.add_typer(limiting.limits, name="limits")
app.command("top")(top.top)
app.command("check")(auditing.check)
app.command("migrate")(auditing.migrate)


def main(arguments: list[str] | None = None) -> None:
    """Run one command, and leave with its exit code: 0 done, 1 failed, 2 wrong use."""
    given = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in given
    try:
        if (
            as_json
        ):  # typer draws a box around what was wrong with the command line; a program wants it as JSON
            code = app(given, standalone_mode=False)
            sys.exit(code if isinstance(code, int) else 0)
        app(given)
    except _USAGE as error:
        sys.exit(report(ValueError(error.format_message()), as_json))
    except (PyrulaError, TimeoutError, ValueError) as error:
        sys.exit(report(error, as_json))
