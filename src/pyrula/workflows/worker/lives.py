"""The lives of a worker: it registers, beats and takes turns; when its leases are lost, it starts anew under
a new name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from pyrula import ids
from pyrula.clock import SECOND, Clock
from pyrula.errors import StoreClosed, StoreError
from pyrula.store.protocol import Store
from pyrula.workflows.body import branching
from pyrula.workflows.body.port import Tracer
from pyrula.workflows.worker.execute import Executions
from pyrula.workflows.worker.heartbeat import Heartbeat
from pyrula.workflows.worker.limits import Limits
from pyrula.workflows.worker.registration import registration
from pyrula.workflows.worker.streams import Streams
from pyrula.workflows.worker.threads import Threads
from pyrula.workflows.worker.turn import Turns
from pyrula.workflows.workflow import Registry

_log = logging.getLogger("pyrula.worker")
_FIRST_RETRY: Final = SECOND // 10
_LONGEST_RETRY: Final = 5 * SECOND
TELL_EVERY: Final = SECOND
"""µs between reports of what a worker says of itself: often enough for people, too seldom to cost anything."""


class Setting(NamedTuple):
    """What a worker is made with, in µs. served: what it executes; known: what its runs may submit as
    children. beats: by itself; streams: whether it consumes for those that have one."""

    store: Store
    clock: Clock
    worker_id: str
    served: Registry
    known: Registry
    most: int
    lease: int
    stall: int
    limits: Limits
    stuck: Callable[[str], None]
    beats: bool = True
    streams: bool = True
    tracer: Tracer | None = None


class Lives:
    """One run of a worker, on one event loop, from the first registration to the last hand-in."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._loop = asyncio.get_running_loop()
        self.wake = asyncio.Event()
        self.over = asyncio.Event()
        self.threads = Threads(setting.most)
        self.executions = Executions(
            setting.store,
            setting.clock,
            setting.known,
            setting.limits,
            self.threads,
            setting.served,
            self.wake,
            setting.tracer,
        )
        self.turns = self._new_turns()
        self.heartbeat: Heartbeat | None = None
        self.stopping = False
        self.abandoned = False
        self.streams = Streams(setting.store, setting.clock, setting.worker_id, self, list(setting.served))
        self._facts: dict[str, object] = {}
        self._telling: asyncio.Task[None] | None = None
        self._told = b""

    async def run(self, *, drain: bool = False) -> None:
        """Live until stopped, or drained. A cancel of the caller stops at once, and hands back."""
        setting = self._setting
        await setting.store.connect()
        setting.limits.rouse(self.stir)
        setting.store.listen(self.wake)
        try:
            if setting.streams and not drain:
                self.executions.streams = self.streams
                self.streams.start()
            with branching(asyncio.get_running_loop()):
                await self._live(drain)
        finally:
            await self.streams.close(vanish=self.abandoned)
            setting.limits.hush()
            if self._telling is not None:
                self._telling.cancel()
            setting.store.unlisten(self.wake)
            self.threads.close()
            self.over.set()

    async def _live(self, drain: bool) -> None:
        while True:
            await self._be_born()
            try:
                await self._one_life(drain)
            finally:
                if self.heartbeat is not None:
                    self.heartbeat.stop()
            if self.turns.lost is None or self.stopping:
                return
            # Nothing of the old life may still run when its runs are handed out again, perhaps to this very
            # worker.
            while self.executions.bodies:
                self.executions.ended_event.clear()
                await self.executions.ended_event.wait()
            if not self.abandoned:  # the store may not have given it up: what it holds there need not lapse
                await self._leave()
            if self.turns.stopping or self.abandoned:  # meanwhile; who is born now would not hear of it
                return
            self.turns = self._new_turns()

    async def _one_life(self, drain: bool) -> None:
        try:
            await self.turns.until_stopped(drain=drain)
        except asyncio.CancelledError:
            if not self.abandoned:
                self.stop_asking()
                self.executions.release_all()
                await self.turns.until_stopped()
                await self._leave()
            raise
        if self.turns.lost is None and not self.abandoned:
            await self._leave()

    async def _be_born(self) -> None:
        """Register under a new incarnation, however long the store needs."""
        setting, pause = self._setting, _FIRST_RETRY
        incarnation = self.executions.incarnation = ids.incarnation()
        here = registration(incarnation, setting.worker_id, setting.lease, setting.served, setting.most)
        self._facts = {**msgspec.json.decode(here.facts), **self._facts}
        setting.limits.number = 0  # the new row's changes are counted anew
        self.streams.born()
        while True:
            self.heartbeat = Heartbeat(
                setting.store,
                setting.clock,
                incarnation,
                lease=setting.lease,
                stall=setting.stall,
                lost=self.turns.lose,
                stuck=self._stuck,
            )
            try:
                facts = self._say()
                await setting.store.register(replace(here, facts=facts, units=self.streams.units))
                self._told = facts
                break
            except StoreClosed:  # in this process, and for good
                raise
            except StoreError as error:
                _log.warning("worker %s could not register: %s", setting.worker_id, error)
                if self.stopping:
                    self.turns.lose("it was stopped before it could register")
                    return
            await setting.clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_RETRY)
        if setting.beats:
            self.heartbeat.start()

    async def _leave(self) -> None:
        try:
            await self._setting.store.leave(self.executions.incarnation)
        except StoreError as error:
            _log.warning(
                "worker %s could not say that it leaves; its leases lapse: %s", self._setting.worker_id, error
            )

    def _new_turns(self) -> Turns:
        setting = self._setting
        executions, wake = self.executions, self.wake
        return Turns(
            setting.store, setting.clock, executions, setting.limits, wake, setting.most, self._proved
        )

    def _proved(self, asked: int) -> None:
        if self.heartbeat is not None:
            self.heartbeat.proved(asked)

    # -- from outside

    def stop_asking(self) -> None:
        """Ask for no more runs; the life ends when what executes has ended."""
        self.stopping = self.turns.stopping = True
        self.streams.look()
        self.executions.ended_event.set()
        self.wake.set()

    def abandon(self) -> None:
        """Vanish as a killed process does: nothing is handed in, and leases last until they lapse."""
        self.abandoned = True
        if self.heartbeat is not None:
            self.heartbeat.fall_silent()
        self.stopping = True
        self.turns.lost = self.turns.lost or "abandoned"
        self.executions.lose_all()
        self.executions.ended_event.set()
        self.wake.set()

    @property
    def incarnation(self) -> str:
        """Of the present life."""
        return self.executions.incarnation

    def tell(self, name: str, fact: object) -> None:
        """Have the store know something of this worker soon, and keep it over its lives. On the loop."""
        self._facts[name] = fact
        self.stir()

    def stir(self) -> None:
        """Something that it says of itself has changed: have the store know it soon. On the loop."""
        if self._telling is None:
            self._telling = asyncio.ensure_future(self._tell())

    def _say(self) -> bytes:
        return msgspec.json.encode({**self._facts, **self._setting.limits.facts()})

    async def _tell(self) -> None:
        await self._setting.clock.sleep(TELL_EVERY)
        self._telling = None
        facts = self._say()
        if facts == self._told or self.abandoned:  # what came was gone again; or nobody is there to speak
            return
        try:
            await self._setting.store.report(self.incarnation, facts)
            self._told = facts
        except StoreError as error:
            _log.debug("worker %s could not report: %s", self._setting.worker_id, error)

    def look(self) -> None:
        """The limiters were changed: ask them again. From any thread."""
        self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        self.stir()
        self.executions.ended_event.set()
        self.wake.set()

    def _stuck(self) -> None:
        runs = [body.claim.run_id for body in list(self.executions.bodies.values())]
        if runs:
            self._setting.stuck(
                f"worker {self._setting.worker_id} lost its leases and can't stop {', '.join(runs[:10])}: "
                "a thread of theirs goes on, or they block the event loop; they may run twice"
            )
