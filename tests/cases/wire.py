"""A wire to PostgreSQL that breaks at a commit, just before or just after it."""

from __future__ import annotations

import asyncio
from typing import Literal

Side = Literal["before", "after"]


class Wire:
    """Passes bytes between clients and the server. cuts: how often it has broken.

    Once bytes hold `mark`, the next COMMIT on the same connection is where it breaks: "before" the server hears
    of it, or "after" the server has done it, so that only the answer is lost.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listening: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()
        self.mark = b""
        self.side: Side = "before"
        self.cuts = 0

    async def open(self) -> int:
        """Listen; answers the port."""
        self._listening = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        return int(self._listening.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Break everything."""
        assert self._listening is not None
        self._listening.close()
        for passing in self._passing:
            passing.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    def arm(self, mark: str, side: Side) -> None:
        """Break once, at the commit of the next transaction in which `mark` is heard."""
        self.mark, self.side = mark.encode(), side

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        its_reader, its_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        cord = _Cord(self)
        both = [
            asyncio.ensure_future(cord.carry(reader, its_writer, "before")),
            asyncio.ensure_future(cord.carry(its_reader, writer, "after")),
        ]
        self._passing.update(both)
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for passing in both:
                passing.cancel()
            for end in (writer, its_writer):
                end.close()


class _Cord:
    """One connection. heard: the mark was."""

    def __init__(self, wire: Wire) -> None:
        self._wire, self._heard = wire, False

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, side: Side) -> None:
        """Pass on what comes from one side: a client's words come before a commit, a server's after it."""
        wire = self._wire
        try:
            while data := await reader.read(1 << 20):
                self._heard = self._heard or bool(wire.mark and wire.mark in data)
                if self._heard and side == wire.side and b"COMMIT\0" in data:
                    wire.cuts += 1
                    wire.mark, self._heard = b"", False
                    return
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            return
