"""The heartbeat: renews a worker's leases from a thread of its own, so that a body which blocks the loop
keeps them. Another thread tells when they are lost: a store may keep a beat waiting, and the moment to give up must
not be missed over that."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal

from pyrula.clock import SECOND, Clock
from pyrula.errors import PyrulaError, StoreClosed
from pyrula.store.protocol import Store

_log = logging.getLogger("pyrula.worker")
_SHORTEST: Final = 0.02

Verdict = Literal["renew", "stalled", "give up", "too late"]


def judge(now: int, renewed: int, ticked: int, lease: int, stall: int) -> Verdict:
    """What to do at `now` (all µs). renewed: last renewal that succeeded; ticked: when the loop last ran.

    At three quarters of the lease the bodies are stopped, so that they are over before another worker may
    take their runs; at nineteen twentieths it is too late for that. A loop that has not run for `stall` is
    taken for dead.
    """
    age = now - renewed
    if age >= lease * 19 // 20:
        return "too late"
    if age >= lease * 3 // 4:
        return "give up"
    return "stalled" if now - ticked > stall else "renew"


class Heartbeat:
    """One incarnation's heartbeat. Calls `lost` on the loop when it is over, and `stuck` (from a thread)
    when it is too late to stop what runs."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        incarnation: str,
        *,
        lease: int,
        stall: int,
        lost: Callable[[str], None],
        stuck: Callable[[], None],
    ) -> None:
        self._store, self._clock, self._incarnation = store, clock, incarnation
        self._lease, self._stall = lease, stall
        self._lost, self._stuck = lost, stuck
        self._loop = asyncio.get_running_loop()
        self._renewed = self._ticked = clock.monotonic()
        self._failing = False
        self._stop = threading.Event()
        self._beating = threading.Lock()
        self._usual = max(_SHORTEST, lease / SECOND / 3)
        self._soon = self._usual / 8
        self._threads = [
            threading.Thread(target=work, name=f"pyrula-heartbeat-{name}", daemon=True)
            for name, work in (("watch", self._watch), ("beat", self._renew))
        ]

    def start(self) -> None:
        """Begin to beat."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Beat no more. Returns at once; a beat under way may still end."""
        self._stop.set()

    def fall_silent(self) -> None:
        """Beat no more; once this returns, the store hears nothing of it any more."""
        self._stop.set()
        with self._beating:
            pass

    def beat(self) -> bool:
        """Renew once, now; False if the incarnation was given up. Raises what the store raises."""
        asked = self._clock.monotonic()
        alive = self._store.heartbeat(self._incarnation)
        if alive:
            self._renewed = max(self._renewed, asked)
        else:
            self._on_loop(lambda: self._lost("the store gave this worker up: its heartbeat came too late"))
        return alive

    def proved(self, asked: int) -> None:
        """A turn that was asked for at `asked` went through: a store gives such a worker at least half a
        lease. One that went through too late, as in a process that was suspended meanwhile, proves nothing."""
        self._renewed = max(self._renewed, asked - self._lease // 2)
        if self._threads[0].is_alive():
            self._give_up()

    def tick(self) -> None:
        """The loop runs."""
        self._ticked = self._clock.monotonic()

    def _renew(self) -> None:
        """In a thread: beat, as long as there is something to renew."""
        pause = 0.0  # a lease may be as short as the time it took to come here
        while not self._stop.wait(pause):
            asked = self._clock.monotonic()
            well = self._judge() == "renew" and self._try()
            took = (self._clock.monotonic() - asked) / SECOND
            pause = max(self._soon, self._usual - took) if well else self._soon

    def _watch(self) -> None:
        """In a thread: tell when it is over, and see whether the loop runs."""
        before: Verdict = "renew"
        while not self._stop.wait(self._soon):
            verdict = self._judge()
            if verdict in ("give up", "too late"):
                self._on_loop(self._give_up)
                if verdict == before == "too late":  # seen once, it may be a clock that a test is moving
                    self._stuck()
                    return
            before = verdict
            self._on_loop(self.tick)

    def _judge(self) -> Verdict:
        return judge(self._clock.monotonic(), self._renewed, self._ticked, self._lease, self._stall)

    def _give_up(self) -> None:
        """On the loop: it may have been blocked, and the worker's own beat may have come in between."""
        if self._judge() in ("give up", "too late"):
            self._lost("the leases could not be renewed in time")

    def _try(self) -> bool:
        """Renew; False if it has to be tried again soon."""
        try:
            with self._beating:
                if self._stop.is_set():
                    return False
                self.beat()
        except StoreClosed:
            self._stop.set()
            return False
        except Exception as error:
            self._fail(error)
            return False
        if self._failing:
            self._failing = False
            _log.info("heartbeat of %s gets through again", self._incarnation)
        return True

    def _fail(self, error: Exception) -> None:
        """Say so once for each outage, not for each beat; with a traceback if nobody foresaw it."""
        level = logging.DEBUG if self._failing else logging.WARNING
        told = " ".join(str(error).split())
        foreseen = isinstance(error, PyrulaError)
        _log.log(level, "heartbeat of %s failed: %s", self._incarnation, told, exc_info=not foreseen)
        self._failing = True

    def _on_loop(self, call: Callable[[], None]) -> None:
        if not self._stop.is_set():
            with suppress(RuntimeError):  # a closed loop: nothing runs there any more
                self._loop.call_soon_threadsafe(call)
