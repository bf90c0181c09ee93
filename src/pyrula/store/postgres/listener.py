"""LISTEN: a thread with a direct connection that passes on what other processes tell."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.pq import ConnStatus

from pyrula.ids import chance

_log = logging.getLogger("pyrula.store")
_LONGEST_PAUSE: Final = 5.0


class Listener:
    """heard: called in the listener's thread with the channel of each message, and with None after a reconnect,
    when messages may have been missed. poll: seconds after which it calls so anyway; None for never."""

    def __init__(
        self,
        conninfo: str,
        channels: Sequence[str],
        heard: Callable[[str | None], None],
        poll: float | None = None,
    ) -> None:
        self._conninfo, self._channels, self._heard, self._poll = conninfo, tuple(channels), heard, poll
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._run, name="pyrula-listen", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread. Blocks for as long as a connect may take."""
        os.write(self._stop_write, b"x")
        self._thread.join()
        os.close(self._stop_read)
        os.close(self._stop_write)

    def _run(self) -> None:
        pause = 0.05
        while True:
            try:
                with psycopg.connect(self._conninfo, autocommit=True) as connection:
                    for channel in self._channels:
                        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                    pause = 0.05
                    self._heard(None)
                    if self._listen(connection):
                        return
            except psycopg.Error as error:
                _log.warning(
                    "listening for news of the store failed, trying again in %.1f s: %s", pause, error
                )
            if self._stopped(pause * (0.5 + chance())):
                return
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _listen(self, connection: psycopg.Connection[Any]) -> bool:
        """Pass messages on until told to stop (True) or until the connection breaks (False)."""
        pgconn = connection.pgconn
        while pgconn.status == ConnStatus.OK:
            ready, _, _ = select.select([pgconn.socket, self._stop_read], [], [], self._poll)
            if self._stop_read in ready:
                return True
            if not ready:
                self._heard(None)
            with contextlib.suppress(psycopg.OperationalError):
                pgconn.consume_input()
            channels = set()
            while (message := pgconn.notifies()) is not None:
                channels.add(message.relname.decode())
            for channel in channels:
                self._heard(channel)
        return False

    def _stopped(self, seconds: float) -> bool:
        return bool(select.select([self._stop_read], [], [], seconds)[0])
