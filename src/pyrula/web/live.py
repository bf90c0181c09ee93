"""Live views: each is computed once however many look at it, and sent when it has changed (server-sent events)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.responses import StreamingResponse

from pyrula.clock import SECOND, Clock
from pyrula.errors import PyrulaError
from pyrula.store.protocol import Store
from pyrula.web import wire
from pyrula.web.call import Call
from pyrula.web.problems import Problem, problem_of
from pyrula.web.views import VIEWS, Minutes, overview

_EVERY: Final = SECOND
"""A view that is looked at is computed at most this often …"""
_SHARE: Final = 10
"""… and never takes more than one part in this many of the time …"""
_SLOWEST: Final = 5 * SECOND
"""… and at least this often, for what changes with no write to the store, such as a lapsed worker."""
_BREATH: Final = 15 * SECOND
"""A comment is sent this often, so that proxies keep a quiet stream."""
_MOST: Final = 500
"""Different views at a time."""
_LONGEST: Final = 3600 * SECOND

log = logging.getLogger("pyrula.http")


class Feed:
    """One view with its parameters. version goes up with every change of data."""

    def __init__(self) -> None:
        self.version = 0
        self.data = b""
        self.lookers = 0
        self.changed = asyncio.Event()
        self.computing: asyncio.Task[None] | None = None

    def publish(self, data: bytes) -> None:
        """Have everybody who looks sent `data`, unless it is what they have."""
        if data != self.data:
            self.data, self.version = data, self.version + 1
            self.changed.set()
            self.changed = asyncio.Event()


class Feeds:
    """The views that are looked at."""

    def __init__(self, store: Store, clock: Clock, closing: asyncio.Event) -> None:
        self._store, self._clock, self._closing = store, clock, closing
        self._feeds: dict[str, Feed] = {}
        self.minutes = Minutes(store, clock)
        self.lookers = 0

    async def overview(self) -> dict[str, Any]:
        """The overview, computed now."""
        return await overview(self._store, self.minutes, {})

    async def stream(self, address: str) -> AsyncIterator[bytes]:
        """The events of one looker: the view now, then at every change, until the server stops or an hour is over."""
        feed = self._feed(address)
        feed.lookers += 1
        self.lookers += 1
        seen, ends = 0, self._clock.monotonic() + _LONGEST
        try:
            yield (
                b"retry: 1500\nevent: hello\ndata: "
                + wire.encode({"now": self._clock.wall() // 1000})
                + b"\n\n"
            )
            while not (self._closing.is_set() or self._clock.monotonic() > ends):
                changed = feed.changed
                if feed.version > seen:
                    seen = feed.version
                    yield b"data: " + feed.data + b"\n\n"
                elif not await self._clock.wait(changed, _BREATH):
                    yield b": still here\n\n"
            yield b"event: bye\ndata: {}\n\n"
        finally:
            feed.lookers -= 1
            self.lookers -= 1
            if not feed.lookers:
                self._drop(address, feed)

    def stop(self) -> None:
        """Wake every looker up, to be told that the server stops."""
        for feed in self._feeds.values():
            feed.changed.set()

    async def close(self) -> None:
        """End what computes."""
        computing = [feed.computing for feed in self._feeds.values() if feed.computing is not None]
        for each in computing:
            each.cancel()
        await asyncio.gather(*computing, return_exceptions=True)

    def _feed(self, address: str) -> Feed:
        feed = self._feeds.get(address)
        if feed is None:
            if len(self._feeds) >= _MOST:
                raise Problem(
                    "time_limit", f"{_MOST} different live views are open; close some", {"Retry-After": "30"}
                )
            view, _, query = address.partition("?")
            feed = self._feeds[address] = Feed()
            params = dict(parse_qsl(query, keep_blank_values=True))
            feed.computing = asyncio.ensure_future(self._compute(feed, VIEWS[view], params))
        return feed

    def _drop(self, address: str, feed: Feed) -> None:
        if self._feeds.get(address) is feed:
            del self._feeds[address]
        if feed.computing is not None:
            feed.computing.cancel()

    async def _compute(
        self,
        feed: Feed,
        view: Callable[[Store, Minutes, Mapping[str, str]], Awaitable[Any]],
        params: Mapping[str, str],
    ) -> None:
        nudge = asyncio.Event()
        self._store.listen(nudge)
        try:
            while True:
                nudge.clear()
                began = self._clock.monotonic()
                try:
                    feed.publish(wire.encode({"view": await view(self._store, self.minutes, params)}))
                except PyrulaError as error:
                    feed.publish(wire.encode({"problem": problem_of(error).details("")}))
                except Problem as problem:
                    feed.publish(wire.encode({"problem": problem.details("")}))
                except Exception:
                    log.exception("a live view failed")
                    feed.publish(
                        wire.encode(
                            {"problem": Problem("internal", "the view failed; see the log").details("")}
                        )
                    )
                took = self._clock.monotonic() - began
                await self._clock.sleep(max(_EVERY, took * _SHARE))
                await self._clock.wait(nudge, _SLOWEST)
        finally:
            self._store.unlisten(nudge)


async def live(call: Call) -> StreamingResponse:
    """A view and its changes, as server-sent events."""
    query = dict(call.query)
    view = query.pop("view")
    given = "&".join(
        f"{name}={wire.quoted(str(value))}" for name, value in sorted(query.items()) if value is not None
    )
    feeds = call.services.feeds
    stream = feeds.stream(f"{view}?{given}")
    return StreamingResponse(
        stream,
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
