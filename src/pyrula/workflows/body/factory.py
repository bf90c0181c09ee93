"""The task factory that makes a body's tasks its branches. Tasks of anything else pass through untouched."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context
from types import CodeType, FrameType
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyrula.workflows.body.contained import Contained
from pyrula.workflows.body.place import PLACE, Inside

_UNORDERED: Final = {
    getattr(found, "__code__", None)
    for found in (
        asyncio.as_completed,
        # from 3.13 on, a class does it
        getattr(getattr(asyncio.tasks, "_AsCompletedIterator", None), "__init__", None),
    )
} - {None}
"""Code that starts the coroutines of a set, in the order of their addresses."""
_INLINE: Final = {asyncio.wait_for.__code__} if sys.version_info < (3, 12) else set()
"""Code that starts a task in place of itself: from 3.12 on wait_for makes none, which no log may show."""
_DEEPEST: Final = 5
"""Frames between a task factory and those: create_task, ensure_future (two), a comprehension."""
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
        started_by = _starter()
        if started_by in _UNORDERED:
            raise RuntimeError(
                "asyncio.as_completed starts coroutines in an order that a replay does not repeat, so their "
                "results would change places: pass it tasks, made by create_task one after the other"
            )
        inline = started_by in _INLINE
        return place.branch_off(lambda: _plain(before, loop, Contained(coro), options), inline=inline)

    return make


def _starter() -> CodeType | None:
    """The code of asyncio's that starts the task, if it is one that matters."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_DEEPEST):
        if frame is None:
            return None
        if frame.f_code in _UNORDERED or frame.f_code in _INLINE:
            return frame.f_code
        frame = frame.f_back
    return None


def _plain(before: Any, loop: asyncio.AbstractEventLoop, coro: Any, options: dict[str, Any]) -> Any:
    if before is None:
        return asyncio.Task(coro, loop=loop, **options)
    return before(loop, coro, **options)
