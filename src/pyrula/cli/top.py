"""`top`: what runs, what waits and for what, in the terminal, live. Keys sort, filter, open `why`, pause and resume."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pyrula.cli.connect import AsJson, StoreUrl, opened, run
from pyrula.cli.output import bar, show, span, table
from pyrula.clock import SystemClock
from pyrula.errors import PyrulaError
from pyrula.store.protocol import Gate, Store
from pyrula.workflows.client import WorkflowClient

SORTS: Final = ("queued", "busy", "name")
_ASKS: Final = {
    "q": "quit",
    "\x03": "quit",
    "w": "why",
    "\r": "why",
    "\n": "why",
    "p": "pause",
    "r": "resume",
}
_KEYS: Final = "q quit · s sort · / filter · ↑↓ choose · w why its first waits · p pause 10 min · r resume"


class Screen(msgspec.Struct, kw_only=True):
    """What is shown and what is chosen. typing: a filter is being typed. told: an answer to a key."""

    sort: int = 0
    search: str = ""
    typing: bool = False
    chosen: int = 0
    told: str = ""
    page: int = 0
    overview: dict[str, Any] = {}
    gates: list[Gate] = []

    @property
    def gate(self) -> Gate | None:
        """The chosen one."""
        return self.gates[self.chosen] if self.chosen < len(self.gates) else None


def press(screen: Screen, key: str) -> str | None:
    """Change the screen by a key; answers what is to be done outside of it: quit, why, pause or resume."""
    if screen.typing:
        _type(screen, key)
        return None
    if key in _ASKS:
        return _ASKS[key]
    if key == "s":
        screen.sort, screen.chosen = (screen.sort + 1) % len(SORTS), 0
    elif key == "/":
        screen.typing, screen.search = True, ""
    elif key in ("\x1b[A", "k"):
        screen.chosen = max(0, screen.chosen - 1)
    elif key in ("\x1b[B", "j"):
        screen.chosen = min(max(0, len(screen.gates) - 1), screen.chosen + 1)
    elif key == "\x1b":
        screen.told, screen.search = "", ""
    return None


def _type(screen: Screen, key: str) -> None:
    if key in ("\r", "\n", "\x1b"):
        screen.typing = False
    elif key in ("\x7f", "\b"):
        screen.search = screen.search[:-1]
    elif key.isprintable():
        screen.search += key
    screen.chosen = 0


def top(
    *,
    rows: Annotated[int, typer.Option(min=1, max=200, help="Gates that are shown.")] = 20,
    once: Annotated[bool, typer.Option("--once", help="Print it once, and leave.")] = False,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show, live, what executes, what waits and for what. Where there is no terminal it is printed once."""
    interactive = sys.stdin.isatty() and sys.stdout.isatty() and not (once or as_json)
    run(_live(store, rows) if interactive else _once(store, rows, as_json))


async def _once(url: str | None, rows: int, as_json: bool) -> None:
    async with opened(url) as store:
        screen = Screen()
        await refresh(screen, store, rows)
        value = {"overview": screen.overview, "gates": screen.gates}
        show(value, as_json, lambda out: out.print(render(screen, now=SystemClock().wall(), keys=False)))


async def _live(url: str | None, rows: int) -> None:
    console = Console()
    clock = SystemClock()
    keys: asyncio.Queue[str] = asyncio.Queue()
    async with opened(url) as store:
        screen = Screen()
        await refresh(screen, store, rows)
        with _keyboard(keys), Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(render(screen, now=clock.wall()), refresh=True)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        asked = press(screen, await keys.get())
                        if asked == "quit":
                            return
                        if asked is not None:
                            screen.told = await _do(asked, screen.gate, store)
                await refresh(screen, store, rows)


async def refresh(screen: Screen, store: Store, rows: int) -> None:
    """Read what is shown."""
    screen.overview = await store.overview()
    screen.gates = await store.gate_page(None, screen.search or None, SORTS[screen.sort], rows, 0)
    screen.chosen = min(screen.chosen, max(0, len(screen.gates) - 1))


async def _do(asked: str, gate: Gate | None, store: Store) -> str:
    """What a key asks for, done; what to tell of it."""
    if gate is None:
        return "No gate is chosen."
    client = WorkflowClient(store)
    try:
        if asked == "pause":
            await client.pause(gate.name, gate.key, until=600)
            return f"{gate.name} is paused for key {gate.key!r}, for 10 minutes."
        if asked == "resume":
            await client.resume(gate.name, gate.key)
            return f"{gate.name} is resumed for key {gate.key!r}."
        _, waiters = await store.line(gate.name, gate.key, 1)
        if not waiters:
            return f"Nothing waits at {gate.name} for key {gate.key!r}."
        run_id = waiters[0]["run_id"]
        return f"{run_id}: {(await client.why(run_id))['text']}"
    except PyrulaError as error:
        return str(error)


def render(screen: Screen, *, now: int, keys: bool = True) -> Group:
    """The screen at `now` (wall µs)."""
    parts: list[Any] = [
        _vitals(screen.overview),
        Text(),
        _waits(screen.overview, now),
        Text(),
        _gates(screen, now),
    ]
    if screen.told:
        parts += [Text(), Panel(Text(screen.told), padding=(0, 1))]
    if keys:
        parts += [Text(), Text(f"filter: {screen.search}▏" if screen.typing else _KEYS, style="dim")]
    return Group(*parts)


def _vitals(overview: dict[str, Any]) -> Text:
    parked = overview["parked"]
    later = parked.get("delay", 0) + parked.get("later", 0)
    more = "+" if overview["queued_is_more"] else ""
    line = Text("pyrula  ", style="bold")
    for name, value, style in (
        ("executing", f"{sum(overview['executing'].values()):,}", "cyan"),
        ("queued", f"{overview['queued']:,}{more}", "yellow"),
        ("parked", f"{sum(parked.values()) - later:,}", "blue"),
        ("not due", f"{later:,}", ""),
        ("workers", f"{overview['live_workers']:,}", "green" if overview["live_workers"] else "bold red"),
    ):
        line.append(f"{value} ", style=f"bold {style}".strip()).append(f"{name}   ")
    return line


def _waits(overview: dict[str, Any], now: int) -> Table | Text:
    rows = [
        (
            each["workflow"],
            f"{each['gate'] or 'a held slot'} ({each['kind']})",
            each["runs"],
            each["keys"],
            _for(each["since"], now),
        )
        for each in overview["waiting"][:10]
    ]
    served = set(overview["served"])
    rows += [
        (
            each["workflow"],
            "a worker with room" if each["workflow"] in served else "no live worker serves it",
            each["runs"],
            "",
            _for(each["since"], now),
        )
        for each in overview["ready"][:5]
    ]
    if overview["not_looked_at"]:
        rows.append(("", "no worker has looked at them", overview["not_looked_at"], "", ""))
    if not rows:
        return Text("Nothing is queued.", style="dim")
    return table(
        ["workflow", "held back by", "runs", "keys", "first in line for"], rows, right=["runs", "keys"]
    )


def _gates(screen: Screen, now: int) -> Table | Text:
    if not screen.gates:
        return Text("No gate is like that." if screen.search else "No gate is in use yet.", style="dim")
    rows = []
    for number, gate in enumerate(screen.gates):
        chosen = number == screen.chosen
        style = "reverse" if chosen else ""
        rows.append(
            (
                Text(gate.name, style=style),
                Text(gate.key or "(no key)", style=style),
                *_use(gate),
                gate.queued,
                _next(gate, now),
            )
        )
    sort = {"queued": "most queued first", "busy": "most executing first", "name": "by name"}[
        SORTS[screen.sort]
    ]
    made = table(["gate", "key", "in use", "", "queued", "next start"], rows, right=["queued"])
    made.caption = f"{sort}{f', holding {screen.search!r}' if screen.search else ''}"
    made.caption_justify = "left"
    return made


def _use(gate: Gate) -> tuple[Text, str]:
    if gate.kind == "limit":
        return bar(
            gate.in_use, gate.max or 0
        ), f"{gate.in_use} of {'?' if gate.max is None else gate.max} slots"
    burst, tokens = gate.burst or 0, gate.tokens or 0
    return bar(burst - tokens, burst), f"{tokens} of {burst} tokens"


def _next(gate: Gate, now: int) -> str:
    if gate.pauses:
        until = gate.paused_until
        what = "paused" if any(pause.by == "operator" for pause in gate.pauses) else "closed by RetryAfter"
        return what if until is None else f"{what}, {span(until.timestamp() - now / 1e6)} left"
    if gate.next_start_at is None:
        return "when a slot frees"
    left = gate.next_start_at.timestamp() - now / 1e6
    return "open" if left < 0.3 else f"in {span(left)}"


def _for(since: Any, now: int) -> str:
    return "" if since is None else span(max(0.0, now / 1e6 - since.timestamp()))


@contextlib.contextmanager
def _keyboard(keys: asyncio.Queue[str]) -> Iterator[None]:
    """Every key that is pressed, as it is pressed, into `keys`."""
    loop = asyncio.get_running_loop()
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            if select.select([fd], [], [], 0.1)[0]:
                text = os.read(fd, 16).decode(errors="ignore")
                for key in [text] if text.startswith("\x1b[") else text:
                    loop.call_soon_threadsafe(keys.put_nowait, key)

    tty.setcbreak(fd)
    reader = threading.Thread(target=read, name="pyrula-keys", daemon=True)
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join()
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
