"""The command table."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
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


def _command(name: str, does: Callable[..., None]) -> None:
    """List it by the first paragraph of its help, in one piece: typer would keep the ends of its lines."""
    first = (inspect.getdoc(does) or "").partition("\n\n")[0]
    app.command(name, short_help=" ".join(first.split()))(does)


_command("demo", demonstrating.demo)
_command("worker", working.worker)
_command("serve", serve.serve)
_command("submit", submitting.submit)
_command("trigger", submitting.trigger)
_command("send-event", submitting.send_event)
_command("runs", seeing.runs)
_command("why", seeing.why)
_command("gates", seeing.gates)
_command("buffers", seeing.buffers)
_command("cancel", steering.cancel)
_command("retry", steering.retry)
_command("flush", steering.flush)
_command("pause", steering.pause)
_command("resume", steering.resume)
_command("override", steering.override)
_command("restamp", steering.restamp)
app.add_typer(limiting.limits, name="limits")
_command("top", top.top)
_command("check", auditing.check)
_command("migrate", auditing.migrate)


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
