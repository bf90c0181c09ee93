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

import msgspec

from pyrula.cli.connect import FAILED, WRONG_USE
from pyrula.cli.output import say
from pyrula.clock import SECOND, SystemClock

Command = Callable[[int, int], Sequence[str]]
"""The arguments of the process with this number, from 1; the second number is its end of the line to its supervisor."""

_STEADY_SECONDS: Final = 10.0
"""A process that lived so long had no trouble starting."""
_LATE_SECONDS: Final = 30.0
"""What a stop may take beyond the bodies' grace: the store is told what is handed back."""
_LAST_WORD_SECONDS: Final = 1.0
_UP, _STOP = b"u", b"s"
"""What is said on the line: by a process that works, and to it. A second stop hands back at once; a signal to a process
does not, as those who end a whole group send it to the supervisor too."""


def pause(early: int) -> float:
    """Seconds until a process is started anew that died early `early` times in a row: twice as long each time."""
    return 0.0 if early == 0 else min(2.0 ** (early - 1), 30.0)


class _Life(msgspec.Struct, eq=False):
    """One process, and its line."""

    process: asyncio.subprocess.Process
    line: socket.socket
    up: bool = False

    def stop(self) -> None:
        with contextlib.suppress(OSError):  # it has just ended
            if self.up:
                self.line.send(_STOP)
            else:
                self.process.terminate()


class Supervisor:
    """Worker processes of one command. The first is started alone, so that what is wrong with the command or the
    store's schema is met once; the others follow when it works."""

    def __init__(self, command: Command, processes: int, grace: float, log: logging.Logger | None) -> None:
        self._command, self._processes, self._grace, self._log = command, processes, grace, log
        self._clock = SystemClock()
        self._living: set[_Life] = set()
        self._up = asyncio.Event()
        self._stopping = asyncio.Event()
        self._code = 0

    async def run(self) -> int:
        """Supervise until told to stop. Answers the exit code: 0, or that of a process which did not stop well."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number.name)
        self._say(f"supervising {self._processes} worker processes, pid {os.getpid()}")
        kept = [self._begin(1)]
        await _first(self._up, self._stopping)
        kept += [self._begin(number) for number in range(2, self._processes + 1)]
        await self._stopping.wait()
        _, late = await asyncio.wait(kept, timeout=self._grace + _LATE_SECONDS)
        if late:
            self._say(f"killing {len(self._living)} that did not end; their leases lapse")
            for life in self._living:
                life.process.kill()
        await asyncio.gather(*kept)
        return self._code

    def _stop(self, why: str) -> None:
        self._say(f"{why}: stopping {len(self._living)} worker processes")
        self._stopping.set()
        for life in self._living:
            life.stop()

    def _begin(self, number: int) -> asyncio.Task[None]:
        kept = asyncio.ensure_future(self._keep(number))
        kept.add_done_callback(self._no_more)
        return kept

    def _no_more(self, _: object) -> None:
        if not self._stopping.is_set():
            self._stop("a process can't be kept going")

    async def _keep(self, number: int) -> None:
        """Have this process run, again and again."""
        early = 0
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            code, was_up = await self._live(number)
            if self._stopping.is_set():
                if was_up and code:  # one that was still starting had nothing to hand back
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
            life = _Life(process, ours)
            self._living.add(life)
            if self._stopping.is_set():
                life.stop()
            listening = asyncio.ensure_future(self._listen(life))
            code = await process.wait()
            await asyncio.wait([listening], timeout=_LAST_WORD_SECONDS)  # what it forked may hold on
            listening.cancel()
            self._living.remove(life)
            return code, life.up

    async def _listen(self, life: _Life) -> None:
        if await asyncio.get_running_loop().sock_recv(life.line, 1) == _UP:
            life.up = True
            self._up.set()

    def _say(self, text: str) -> None:
        say(text, self._log)


class Supervised:
    """What a process knows of its supervisor. line: its end of the line."""

    def __init__(self, line: int) -> None:
        self._line = socket.socket(fileno=line)

    def up(self, stop: Callable[[str, bool], None]) -> None:
        """Tell that this process works. stop: called with who wants it to stop, and whether for the second time."""
        with contextlib.suppress(OSError):  # it is gone already, and the reader says so
            self._line.send(_UP)
        loop = asyncio.get_running_loop()
        again = False

        def told() -> None:
            nonlocal again
            if self._line.recv(1):
                stop("supervisor", again)
                again = True
            else:
                loop.remove_reader(self._line)
                stop("the supervisor is gone", False)

        loop.add_reader(self._line, told)


async def _first(*events: asyncio.Event) -> None:
    """Wait for one of these."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


def _named(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
