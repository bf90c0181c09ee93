"""A body's coroutine, kept from ending its worker."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any


class Contained(Coroutine[Any, Any, Any]):
    """Runs a coroutine in whose place it stands. What `sys.exit` raises there is an error like another: asyncio would
    let it out of the loop, and with it end the worker and all that it executes."""

    __slots__ = ("_coro",)

    def __init__(self, coro: Coroutine[Any, Any, Any]) -> None:
        self._coro = coro

    def send(self, value: Any) -> Any:
        try:
            return self._coro.send(value)
        except SystemExit as left:
            raise _error(left) from None

    def throw(self, *error: Any) -> Any:
        try:
            return self._coro.throw(*error)
        except SystemExit as left:
            raise _error(left) from None
        finally:
            del error  # whose traceback holds this frame

    def close(self) -> None:
        self._coro.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coro.__await__()

    def __getattr__(self, name: str) -> Any:  # its name, code and frame, for who looks at a task
        return getattr(self._coro, name)


def _error(left: SystemExit) -> RuntimeError:
    return RuntimeError(f"SystemExit: {left.code}; a body ends by returning, or by raising an error")
