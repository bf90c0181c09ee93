"""What each page of `/ui` shows, as values: the same for everybody who looks at it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from pyrula.clock import Clock
from pyrula.errors import RunNotFound, shown
from pyrula.store.protocol import Store
from pyrula.web.resources import gates
from pyrula.web.wire import RunRow

MINUTE: Final = 60_000_000
KEPT: Final = 60
"""Minutes of finished runs that are shown."""
_PAGE: Final = 50
_LOG: Final = 20_000
"""Entries of a run's log that are read for its view."""
_NEWEST: Final = 300
"""Of these, how many the page is sent: it draws 200, each from where the one before it ended."""


class Minutes:
    """Finished runs per minute. A minute that is over is counted once: only the running one is counted again."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._counted: dict[int, tuple[int, int]] = {}

    async def last(self) -> list[tuple[int, int, int]]:
        """(start of the minute in seconds since 1970, ended, of these not completed), the running minute last."""
        now = self._clock.wall() // MINUTE
        first = now - KEPT + 1
        self._counted = {minute: count for minute, count in self._counted.items() if minute >= first}
        found = []
        for minute in range(first, now + 1):
            count = self._counted.get(minute)
            if count is None:
                count = await self._store.ended(minute)
                if minute < now - 1:  # a minute more, for the store's time may lag the wall
                    self._counted[minute] = count
            found.append((minute * 60, *count))
        return found


async def overview(store: Store, minutes: Minutes, params: Mapping[str, str]) -> dict[str, Any]:
    """What runs, what waits, and for what; workers and what holds each back; what was steered."""
    found = await store.overview()
    failed, _ = await store.runs(None, "failed", None, 5, None)
    return {
        **found,
        "minutes": await minutes.last(),
        "workers": await store.workers(),
        "overrides": await store.overrides(),
        "failed": [RunRow.of(run) for run in failed],
    }


async def gate_list(store: Store, minutes: Minutes, params: Mapping[str, str]) -> Any:
    """A page of gates."""
    return await gates.page(
        store,
        name=params.get("name"),
        search=params.get("search") or None,
        sort=params.get("sort", "queued"),
        limit=_PAGE,
        cursor=params.get("cursor"),
    )


async def gate(store: Store, minutes: Minutes, params: Mapping[str, str]) -> Any:
    """One key's counter, who holds it and who waits."""
    return await gates.detail(store, params.get("name", ""), params.get("key", ""))


async def run_list(store: Store, minutes: Minutes, params: Mapping[str, str]) -> Any:
    """A page of runs, newest first."""
    found, cursor = await store.runs(
        params.get("workflow") or None,
        params.get("state") or None,
        params.get("search") or None,
        _PAGE,
        params.get("cursor"),
    )
    return {"items": [RunRow.of(run) for run in found], "cursor": cursor}


async def run(store: Store, minutes: Minutes, params: Mapping[str, str]) -> Any:
    """One run: why it waits, its steps, its children."""
    run_id = params.get("name", "")
    found = await store.get(run_id)
    why = await store.why(run_id)
    if found is None:
        if why is not None:  # a stream's record, of which no run could be made
            raise RunNotFound(why["text"])
        raise RunNotFound(
            f"no run {shown(run_id)} is kept in this store; finished runs are swept after its retention"
        )
    return {
        "run": found,
        "why": why,
        **_log(await store.steps(run_id, _LOG)),
        "children": await store.children(run_id, 100),
        "parent": await store.parent(run_id),
    }


def _log(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """The newest of a log, without what the steps answered: the page draws when they were."""
    newest = [{name: each[name] for name in each if name != "value"} for each in steps[-_NEWEST:]]
    return {"steps": newest, "steps_before": len(steps) - len(newest)}


async def buffers(store: Store, minutes: Minutes, params: Mapping[str, str]) -> Any:
    """A page of buffers, the one due first first."""
    at = int(params.get("cursor") or 0)
    found = await store.buffer_page(
        params.get("workflow") or None, params.get("search") or None, _PAGE + 1, at
    )
    return {"items": found[:_PAGE], "cursor": str(at + _PAGE) if len(found) > _PAGE else None}


async def schedules(store: Store, minutes: Minutes, params: Mapping[str, str]) -> Any:
    """Schedules, with their next ticks."""
    return {"items": await store.schedules()}


async def workers(store: Store, minutes: Minutes, params: Mapping[str, str]) -> Any:
    """Workers, and what holds each back."""
    return {"items": await store.workers()}


async def workflows(store: Store, minutes: Minutes, params: Mapping[str, str]) -> Any:
    """What workers have registered."""
    return {"items": await store.workflows()}


View = Callable[[Store, Minutes, Mapping[str, str]], Awaitable[Any]]
VIEWS: Final[Mapping[str, View]] = {
    "overview": overview,
    "gates": gate_list,
    "gate": gate,
    "runs": run_list,
    "run": run,
    "buffers": buffers,
    "schedules": schedules,
    "workers": workers,
    "workflows": workflows,
}
