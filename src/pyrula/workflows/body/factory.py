"""The task factory that makes a body's tasks its branches. Tasks of anything else pass through untouched."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any
from weakref import WeakKeyDictionary

from pyrula.workflows.body.place import PLACE, Inside

_installed: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Any, Any, int]] = WeakKeyDictionary()
"""Loop → (the factory before, ours, how many asked for it)."""


@contextmanager
def branching(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """While this is open, tasks that a body starts on `loop` are its branches; the loop's own factory still
    makes them."""
    before, ours, users = _installed.get(loop) or (loop.get_task_factory(), None, 0)
    if ours is None:
        ours = _factory(before)
        loop.set_task_factory(ours)
    _installed[loop] = (before, ours, users + 1)
    try:
        yield
    finally:
        before, ours, users = _installed[loop]
        if users > 1:
            _installed[loop] = (before, ours, users - 1)
        else:
            del _installed[loop]
            if loop.get_task_factory() is ours:  # somebody else's that was put on top stays
                loop.set_task_factory(before)


def _factory(before: Any) -> Any:
    def make(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        context: Context | None = options.get("context")
        place = PLACE.get() if context is None else context.get(PLACE)
        if place is None or isinstance(place, Inside):
            return _plain(before, loop, coro, options)
        return place.branch_off(lambda: _plain(before, loop, coro, options))

    return make


def _plain(before: Any, loop: asyncio.AbstractEventLoop, coro: Any, options: dict[str, Any]) -> Any:
    if before is None:
        return asyncio.Task(coro, loop=loop, **options)
    return before(loop, coro, **options)
