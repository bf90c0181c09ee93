"""`worker --processes N`: keeps N worker processes going, starts anew what dies, and stops them all in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Final

from pyrula.cli.connect import FAILED, WRONG_USE
from pyrula.cli.output import say
from pyrula.clock import SECOND, SystemClock

Command = Callable[[int, int], Sequence[str]]
"""The arguments of the process with this number, from 1; the second number is its end of the line to its supervisor."""

_STEADY_SECONDS: Final = 10.0
"""A process that lived so long had no trouble starting."""
_LATE_SECONDS: Final = 30.0
"""What a stop may take beyond the bodies' grace: the store is told what is handed back."""
_UP: Final = b"u"


def pause(early: int) -> float:
    """Seconds until a process is started anew that died early `early` times in a row: twice as long each time."""
    return 0.0 if early == 0 else min(2.0 ** (early - 1), 30.0)


class Supervisor:
    """Worker processes of one command. The first is started alone, so that what is wrong with the command or the
    store's schema is met once; the others follow when it works."""

    def __init__(self, command: Command, processes: int, grace: float, log: logging.Logger | None) -> None:
        self._command, self._processes, self._grace, self._log = command, processes, grace, log
        self._clock = SystemClock()
        self._living: dict[int, asyncio.subprocess.Process] = {}
        self._up = asyncio.Event()
        self._stopping = asyncio.Event()
        self._code = 0

    async def run(self) -> int:
        """Supervise until told to stop. Answers the exit code: 0, or that of a process which did not stop well."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number.name)
        self._say(f"supervising {self._processes} worker processes, pid {os.getpid()}")
        kept = [asyncio.ensure_future(self._keep(1))]
        await _first(self._up, self._stopping)
        kept += [asyncio.ensure_future(self._keep(number)) for number in range(2, self._processes + 1)]
        await self._stopping.wait()
        _, late = await asyncio.wait(kept, timeout=self._grace + _LATE_SECONDS)
        if late:
            self._say(f"killing {len(self._living)} that did not end; their leases lapse")
            self._signal(signal.SIGKILL)
        await asyncio.gather(*kept)
        return self._code

    def _stop(self, why: str) -> None:
        self._say(f"{why}: stopping {len(self._living)} worker processes")
        self._stopping.set()
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._living.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    async def _keep(self, number: int) -> None:
        """Have this process run, again and again."""
        early = 0
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            code, was_up = await self._live(number)
            if self._stopping.is_set():
                if code not in (0, -signal.SIGTERM):  # the latter had not begun to listen
                    self._code = self._code or (code if code > 0 else FAILED)
            elif code == WRONG_USE and not was_up:  # it said why, and would say so again
                self._code = WRONG_USE
                self._stop(f"worker process {number} can't start")
            else:
                steady = self._clock.monotonic() - began >= _STEADY_SECONDS * SECOND
                early = 0 if steady else early + 1
                seconds = pause(early)
                self._say(
                    f"worker process {number} ended ({_named(code)}); starting it anew in {seconds:g} s"
                )
                await self._clock.wait(self._stopping, round(seconds * SECOND))

    async def _live(self, number: int) -> tuple[int, bool]:
        """One life: its exit code, and whether it came so far as to work. It ends with the other end of its line."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "pyrula", *self._command(number, theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                process_group=0,  # Ctrl-C is the supervisor's, which passes it on once
            )
            theirs.close()
            self._living[number] = process
            if self._stopping.is_set():
                self._signal(signal.SIGTERM)
            listening = asyncio.ensure_future(self._listen(ours))
            try:
                code = await process.wait()
                return code, await listening
            finally:
                del self._living[number]

    async def _listen(self, line: socket.socket) -> bool:
        came_up = await asyncio.get_running_loop().sock_recv(line, 1) == _UP
        if came_up:
            self._up.set()
        return came_up

    def _say(self, text: str) -> None:
        say(text, self._log)


class Supervised:
    """What a process knows of its supervisor. line: its end of the line."""

    def __init__(self, line: int) -> None:
        self._line = socket.socket(fileno=line)

    def up(self, gone: Callable[[], None]) -> None:
        """Tell that this process works. gone: called once the supervisor is no more."""
        with contextlib.suppress(OSError):  # it is gone already, and the reader says so
            self._line.send(_UP)
        loop = asyncio.get_running_loop()

        def closed() -> None:
            loop.remove_reader(self._line)
            gone()

        loop.add_reader(self._line, closed)


async def _first(*events: asyncio.Event) -> None:
    """Wait for one of these."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


def _named(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
