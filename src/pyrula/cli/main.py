"""The command table."""

from __future__ import annotations

import sys

import typer
from click.exceptions import Abort, ClickException, Exit

from pyrula.cli import auditing, demonstrating, seeing, steering, submitting, working
from pyrula.cli.connect import FAILED, report
from pyrula.errors import PyrulaError

app = typer.Typer(
    name="pyrula",
    help="Flow control for durable workflows. Exit codes: 0 done, 1 failed, 2 wrong use.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.command("demo")(demonstrating.demo)
app.command("worker")(working.worker)
app.command("submit")(submitting.submit)
app.command("trigger")(submitting.trigger)
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
app.command("check")(auditing.check)
app.command("migrate")(auditing.migrate)


def main(arguments: list[str] | None = None) -> None:
    """Run one command, and leave with its exit code: 0 done, 1 failed, 2 wrong use."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        sys.exit(app(given, standalone_mode=False) or 0)
    except Exit as leave:
        sys.exit(leave.exit_code)
    except ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:  # `pyrula runs | head`
        sys.stderr.close()
        sys.exit(FAILED)
    except (PyrulaError, TimeoutError, ValueError) as error:
        sys.exit(report(error, "--json" in given))
