"""`demo`: see it work, and see its promises measured."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from pyrula.cli.connect import FAILED, AsJson, run
from pyrula.cli.demo.play import perform, staged
from pyrula.cli.demo.verdict import Row, judge
from pyrula.cli.demo.view import Scene, final, picture, sentence
from pyrula.cli.output import console, show

_EVERY = 2.0


def demo(
    *,
    keep: Annotated[
        Path | None, typer.Option(help="Keep the store, the notes and the logs in this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """A multi-tenant workload in two worker processes, one of them killed half way; then promised against
    measured.

    Exits 1 if a promise was broken. What is measured comes from the bodies' own notes, not from the engine's
    counters.
    """
    out = console(stderr=as_json)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        rows = _played(keep, out)
    else:
        with tempfile.TemporaryDirectory(prefix="pyrula-demo-") as folder:
            rows = _played(Path(folder), out)
    broken = [row.promise for row in rows if not row.kept]

    def render(console: Console) -> None:
        console.print()
        console.print(final(rows))
        console.print()
        if broken:
            console.print(f"{len(broken)} of {len(rows)} promises BROKEN", style="bold red")
        else:
            console.print(
                f"all {len(rows)} promises kept, measured by the bodies' own notes", style="bold green"
            )
        console.print(
            "The rows of starts show the span that came nearest to its bound; (+1 s) is how late a busy machine "
            "may make a start, which is never early.",
            style="dim",
        )

    show([row._asdict() for row in rows], as_json, render)
    if broken:
        raise typer.Exit(FAILED)


def _played(folder: Path, out: Console) -> list[Row]:
    if out.is_terminal:
        with Live(console=out, auto_refresh=False, transient=False) as live:
            return run(_play(folder.resolve(), lambda scene: live.update(picture(scene), refresh=True)))
    return run(_play(folder.resolve(), _Lines(out)))


async def _play(folder: Path, shown: Callable[[Scene], None]) -> list[Row]:
    async with staged(folder) as stage:
        notes = await perform(stage, shown)
        return judge(notes, stage.play)


class _Lines:
    """Shows scenes as lines: one every two seconds, and whatever happened since the last."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._next = 0.0
        self._told = 0

    def __call__(self, scene: Scene) -> None:
        for text in scene.told[self._told :]:
            self._out.print(text, markup=False)
        self._told = len(scene.told)
        if scene.seconds >= self._next:
            self._out.print(sentence(scene), markup=False)
            self._next = scene.seconds + _EVERY
