"""A store whose calls are counted while they are under way."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from pyrula.store.protocol import Store

_WAITS = frozenset({"finished"})
"""Calls that last until something happens: nobody has to wait for those."""


class Watched:
    """The face of `store`; `calls` holds the name of each call that has not returned."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: dict[object, str] = {}

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._store, name)
        if not inspect.iscoroutinefunction(attribute) or name in _WAITS:
            return attribute
        counted = self._counted(name, attribute)
        setattr(self, name, counted)
        return counted

    def _counted(self, name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(call)
        async def counted(*args: Any, **kwargs: Any) -> Any:
            token = object()
            self.calls[token] = name
            try:
                return await call(*args, **kwargs)
            finally:
                del self.calls[token]

        return counted
