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
from pyrula.store.postgres.connection import is_pooled

_log = logging.getLogger("pyrula.store")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
_POLL_SECONDS: Final = 0.5
"""Behind a pooler nobody can listen: whoever waits looks this often."""
GLANCE: Final = "glance"
_TAKEN_SECONDS: Final = 0.1
_GLANCE_SECONDS: Final = 20.0
"""Even while listening: a message may have gone to a process that is stopped."""


class Listener:
    """heard: called in the listener's thread, with the channel and payload of a message; with None after a
    connect, when messages may have been missed, and with None and GLANCE now and then. It answers an event that is
    set once the loop has taken the message up; if that lasts, pass_on is run: a statement that wakes another."""

    def __init__(
        self,
        conninfo: str,
        channels: Sequence[str],
        heard: Callable[[str | None, str], threading.Event | None],
        pass_on: str,
    ) -> None:
        self._conninfo, self._channels, self._heard = conninfo, tuple(channels), heard
        self._pass_on = pass_on
        self._pid: int | None = None
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._run, name="pyrula-listen", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """The server's process behind the listening connection; None while nobody listens."""
        return self._pid

    def close(self) -> None:
        """Stop the thread. Blocks for as long as a connect may take."""
        os.write(self._stop_write, b"x")
        self._thread.join()
        os.close(self._stop_read)
        os.close(self._stop_write)

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                with psycopg.connect(self._conninfo, autocommit=True) as connection:
                    if is_pooled(connection):
                        break
                    for channel in self._channels:
                        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                    pause, self._pid = _FIRST_PAUSE, connection.info.backend_pid
                    self._heard(None, "")
                    if self._listen(connection):
                        return
            except psycopg.Error as error:
                told = _log.debug if pause > _FIRST_PAUSE else _log.warning  # once an outage
                told("listening for news of the store failed, trying again: %s", " ".join(str(error).split()))
            finally:
                self._pid = None
            if self._stopped(pause * (0.5 + chance())):
                return
            pause = min(2 * pause, _LONGEST_PAUSE)
        _log.warning(
            "a pooler is in between, and none can listen through it: looking every %g s instead; give a direct URL "
            "with ?listen=",
            _POLL_SECONDS,
        )
        while not self._stopped(_POLL_SECONDS * (0.75 + chance() / 2)):
            self._heard(None, "")

    def _listen(self, connection: psycopg.Connection[Any]) -> bool:
        """Pass messages on until told to stop (True) or until the connection breaks (False)."""
        pgconn = connection.pgconn
        while pgconn.status == ConnStatus.OK:
            glance = _GLANCE_SECONDS * (0.75 + chance() / 2)
            ready, _, _ = select.select([pgconn.socket, self._stop_read], [], [], glance)
            if self._stop_read in ready:
                return True
            if not ready:
                self._heard(None, GLANCE)
            with contextlib.suppress(psycopg.OperationalError):
                pgconn.consume_input()
            messages = set()
            while (message := pgconn.notifies()) is not None:
                messages.add((message.relname.decode(), message.extra.decode()))
            for channel, text in messages:
                taken = self._heard(channel, text)
                if taken is not None and not taken.wait(_TAKEN_SECONDS):
                    connection.execute(self._pass_on)  # a body holds our loop up: let another process do it
        return False

    def _stopped(self, seconds: float) -> bool:
        return bool(select.select([self._stop_read], [], [], seconds)[0])
