"""How the command line shows things: JSON for programs, plain words and tables for people."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from shlex import quote
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pyrula.clock import SystemClock

Standing = dict[str, Any]
"""An override or a pause in force, of one key or of all (None), as `Store.overrides` lists it."""

_WIDTH: Final = 200
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
COLOURS: Final = {
    "queued": "yellow",
    "executing": "cyan",
    "parked": "blue",
    "completed": "green",
    "failed": "red",
    "cancelled": "magenta",
    "expired": "magenta",
}
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"))


def console(*, stderr: bool = False) -> Console:
    """A console; where there is no terminal its lines are wide, so that nothing is cut in a log or pipe."""
    made = Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not made.is_terminal:
        made = Console(stderr=stderr, highlight=False, width=_WIDTH)
    return made


def say(text: str, log: logging.Logger | None) -> None:
    """Tell people what the process is at: on stderr, or in its log where that is for programs."""
    if log is None:
        console(stderr=True).print(text, markup=False)
    else:
        log.info(text)


def show(value: Any, as_json: bool, render: Callable[[Console], None]) -> None:
    """Print `value` as JSON, or have it rendered for people."""
    if as_json:
        data = msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=2)
        sys.stdout.write(data.decode() + "\n")
        sys.stdout.flush()  # whoever reads a pipe may act on it while this process goes on
    else:
        render(console())


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    right: Iterable[str] = (),
    gives_way: str | None = None,
) -> Table:
    """A table without rules, nothing to misread in a narrow terminal: one column alone gives way and is folded.

    right: columns of numbers. gives_way: default the last; ids and numbers stay whole, to be read and copied.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    numbers = set(right)
    for name in columns:
        folds = name == (columns[-1] if gives_way is None else gives_way)
        made.add_column(
            name, justify="right" if name in numbers else "left", overflow="fold", no_wrap=not folds
        )
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(_plain(cell)) for cell in row))
    return made


def state(name: str) -> Text:
    """A run's state in its colour."""
    return Text(name, COLOURS.get(name, ""))


def bar(used: float, most: float, width: int = 10) -> Text:
    """`used` of `most` as a bar: red when full."""
    share = 0.0 if most <= 0 else max(0.0, min(1.0, used / most))
    filled = round(share * width)
    return Text.assemble(("█" * filled, "red" if share >= 1 else "green"), ("░" * (width - filled), "dim"))


def span(seconds: float) -> str:
    """A duration as people say it: `0.2 s`, `45 s`, `3 min 20 s`, `2 h 5 min`, `6 d 3 h`."""
    if seconds < 0:
        return f"-{span(-seconds)}"
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds >= 0.1 or seconds == 0 else f"{seconds * 1000:.0f} ms"
    whole = round(seconds)
    for number, (size, name) in enumerate(_UNITS):
        if whole >= size:
            below = 1 if name == "min" else _UNITS[number + 1][0]
            rest = whole % size // below
            return f"{whole // size} {name}" + (
                f" {rest} {'s' if name == 'min' else _UNITS[number + 1][1]}" if rest else ""
            )
    return f"{whole} s"


def now() -> datetime:
    """What this machine's wall clock says."""
    return _EPOCH + timedelta(microseconds=SystemClock().wall())


def ago(instant: datetime | None, at: datetime) -> str:
    """`3 min ago`, `in 5 s`, or `-` for no instant."""
    if instant is None:
        return "-"
    seconds = (at - instant).total_seconds()
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"


def clock_time(instant: datetime) -> str:
    """An instant in local time, with its date where that is another day's."""
    local = instant.astimezone()
    form = "%H:%M:%S" if local.date() == now().astimezone().date() else "%Y-%m-%d %H:%M:%S"
    return local.strftime(form)


def line(value: Any, width: int = 60) -> str:
    """A JSON value on one line of at most `width` characters."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def key_text(key: str) -> str:
    """A key as people can see it: an empty one too."""
    return key if key and key.isprintable() else repr(key)


def shown_override(standing: Standing) -> str:
    """An override or a pause in force, as a store lists it: `max 3`, `5/s, burst 9`, `a pause`."""
    if standing["kind"] == "pause":
        return "a pause"
    if standing["kind"] == "limit":
        return f"max {standing['max']}"
    return f"{standing['per_second']:g}/s, burst {standing['burst']}"


def as_arguments(gate: str, key: str | None) -> str:
    """A gate, and one key of it, as the commands take them: to be copied into a shell."""
    return quote(gate) if key is None else f"{quote(gate)} --key {quote(key)}"


def _plain(cell: Any) -> str:
    if cell is None:
        return "-"
    return f"{cell:g}" if isinstance(cell, float) else str(cell)
