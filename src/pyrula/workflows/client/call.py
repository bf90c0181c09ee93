"""Runs a client's coroutines on another loop than the caller's, and waits for them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from pyrula.errors import StoreClosed

if TYPE_CHECKING:
    from pyrula.workflows.client.client import WorkflowClient

P = ParamSpec("P")
R = TypeVar("R")


class Call(Generic[P, R]):
    """A method of the client, by name, as a method that blocks."""

    def __init__(self, method: Callable[Concatenate[Any, P], Awaitable[R]], name: str) -> None:
        self._name = name
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, instance: Calls, owner: type[Any]) -> Callable[P, R]: ...
    def __get__(self, instance: Calls | None, owner: type[Any]) -> Self | Callable[P, R]:
        if instance is None:
            return self
        blocking, name = instance, self._name

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            answer: R = blocking._run(lambda: getattr(blocking._client, name)(*args, **kwargs))
            return answer

        call.__name__, call.__doc__ = name, self.__doc__
        return call


class Calls:
    """Runs the client's coroutines on a loop that is not the caller's, from any thread.

    The store decides where: on the loop that it is used on already (that of a worker in this process), else
    on one of its own, in a thread that ends with `close()` or with the process. A process that forks must
    make its client and its store afterwards.
    """

    def __init__(self, client: WorkflowClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the thread, and close the store if it was used from here alone. Safe to call again."""
        with self._lock:
            loop, thread, self._closed = self._loop, self._thread, True
            self._loop = self._thread = None
        if loop is None or thread is None or os.getpid() != self._process:
            return
        asyncio.run_coroutine_threadsafe(self._client.store.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _run(self, call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        loop = self._where()
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is loop:
            raise RuntimeError(
                "client.blocking was called on the event loop that its store lives on, which would wait for "
                "itself; await the client's own method here"
            )
        future: Future[Any] = asyncio.run_coroutine_threadsafe(call(), loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # interrupted (Ctrl-C) while it waits: nobody waits for the answer any more
            raise

    def _where(self) -> asyncio.AbstractEventLoop:
        if os.getpid() != self._process:
            raise RuntimeError(
                "client.blocking was made before this process forked, and threads do not survive a fork; "
                "open the store and make the client in the child"
            )
        with self._lock:
            if self._closed:
                raise StoreClosed("client.blocking was closed; make a new client, on a store opened anew")
            if self._loop is not None:
                return self._loop
            lives_on: asyncio.AbstractEventLoop | None = getattr(self._client.store, "loop", None)
            if lives_on is not None and lives_on.is_running():
                return lives_on
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_serve, args=(self._loop,), name="pyrula-blocking", daemon=True
            )
            self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
