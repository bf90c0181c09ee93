"""A page of runs."""

from __future__ import annotations

from collections.abc import Iterable

from pyrula.model.run import Run


class RunPage(list[Run]):
    """Runs, newest first. cursor: pass it to `client.runs(cursor=…)` for those after them; None: there are
    none.
    """

    def __init__(self, runs: Iterable[Run], cursor: str | None) -> None:
        super().__init__(runs)
        self.cursor = cursor
