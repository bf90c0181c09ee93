"""Tells a body what was settled: one entry at a time, in the store's order, and only when nothing of it can
run.

That is what makes branches that race see the same winner, live and in every replay.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from pyrula.errors import LeaseLost
from pyrula.model.outcome import Parked
from pyrula.model.step import Entry, Kind, call_of
from pyrula.workflows.body.branches import Branch, Tree
from pyrula.workflows.body.call import Call, answer
from pyrula.workflows.body.place import PLACE
from pyrula.workflows.body.replay import Key, Log, described

if TYPE_CHECKING:
    from pyrula.workflows.body.body import Body

STILL: Final = 5
"""Rounds of the loop without anything to run after which branches count as settled: what the end of one
future sets off reaches the body through at most this many callbacks (a gather in a shield in a wait_for, and
two to spare)."""


class Teller:
    """The calls of one body, and the rounds in which they are answered."""

    def __init__(
        self, body: Body, entries: tuple[Entry, ...], tree: Tree, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._body = body
        self._tree = tree
        self._loop = loop
        self.log = Log(entries)
        self.calls: dict[Key, Call] = {}
        self.gap = False
        """Whether the store has settled something that was not read here yet."""
        self.working: set[asyncio.Task[None]] = set()
        self._held: list[Call] = []
        self._poked = False
        self._still = 0
        self._closed = False

    # -- from the body's tasks

    def call(self, branch: Branch, key: Key, kind: Kind, name: str) -> Call:
        """A new call, under way in its branch."""
        call = Call(branch, key, kind, name, self.log.delivered)
        self.calls[key] = call
        branch.call = call
        return call

    async def told(self, call: Call) -> Any:
        """The call's settled value, when its turn comes. Raises what it was settled with."""
        entry = self.log.next()
        alone = not self._tree.grown and not self.gap  # then nobody else could run before it is told
        if entry is not None and alone and (entry.branch, entry.number) == call.key:
            self.log.advance()
        else:
            entry = await self._suspend(call)
            assert entry is not None
        return answer(call, entry)

    async def frontier(self, call: Call) -> None:
        """Return when the replay is over: nothing new begins before, for what is replayed may yet cancel
        it."""
        if self.log.replaying:
            self._held.append(call)
            await self._suspend(call)

    async def _suspend(self, call: Call) -> Entry | None:
        call.future = self._loop.create_future()
        self.poke()
        try:
            return await call.future
        except asyncio.CancelledError:
            call.abandoned = True
            self.poke()
            raise

    def take(self, entries: list[Entry]) -> None:
        """Take in what the store answered to a write."""
        orders = sorted(entry.order for entry in entries if entry.order > self.log.seen)
        contiguous = orders == list(range(self.log.seen + 1, self.log.seen + 1 + len(orders)))
        if not contiguous and self.log.has_waiting():
            self.gap = True  # something else was settled before, and must be told first
        self.log.add(entries)

    # -- rounds

    def poke(self) -> None:
        """Something changed: look at it once the loop has run what it has."""
        self._still = 0
        self._again()

    def _again(self) -> None:
        if not self._poked:
            self._poked = True
            self._loop.call_soon(self._look, context=contextvars.Context())

    def close(self) -> None:
        """The body is over, and told nothing more."""
        self._closed = True
        del self._body

    def _look(self) -> None:
        self._poked = False
        if self._closed:
            return
        if self._body.closing:
            self._body.finish()
        elif not self._tree.blocked():
            self.poke()
        elif self._tree.grown and self._still < STILL:
            self._still += 1
            self._again()
        else:
            self._act()

    def _act(self) -> None:
        """Nothing of the body can run: tell it the next thing, let it go on to what is new, or park it."""
        if self.gap:
            if not self.working:
                self.work(self._read_log())
        elif self._deliver():
            self.poke()
        elif (entry := self.log.next()) is not None:
            self._look_for(entry)
        elif self._held:
            self._let_go()
        elif not self.working:
            self._park_or_store()

    def _deliver(self) -> bool:
        """Tell a branch the next settled entry; whether one was. What nobody waits for any more is passed
        over."""
        while (entry := self.log.next()) is not None:
            call = self.calls.get((entry.branch, entry.number))
            if call.abandoned if call is not None else self._died_before(entry):
                self.log.advance()
                if entry.kind == "event" and entry.status == "done":
                    self.work(self._put_back(entry))
            elif call is None or not call.waits or call in self._held:
                return False
            else:
                self.log.advance()
                assert call.future is not None
                call.future.set_result(entry)
                return True
        return False

    def _died_before(self, entry: Entry) -> bool:
        """Whether the branch that asked for it was cancelled before it could ask this time."""
        branch = self._tree.by_path.get(call_of(entry.branch, entry.number)[0])
        return branch is not None and branch.ended and branch.cancelled

    def _look_for(self, entry: Entry) -> None:
        """The next entry was not asked for yet. If nobody can come to ask for it, the code is not that of the
        log."""
        if (entry.branch, entry.number) in self.calls or not self._stuck():
            return
        asking = [call for call in self._open() if call.branch.path == entry.branch] or self._open()
        found = described(asking[0].kind, asking[0].name, *asking[0].key) if asking else "nothing"
        self._body.mismatch(entry, f"the body asks for {found}")

    def _let_go(self) -> None:
        held, self._held = self._held, []
        for call in held:
            assert call.future is not None
            if not call.future.done():
                call.future.set_result(None)
        self.poke()

    def _park_or_store(self) -> None:
        """Park if every branch waits; else let the store know of the waits of those that do, while the others
        go on."""
        waits = [call for call in self._open() if call.wait is not None and not call.stored]
        if self._tree.all_wait() and not self._has_timers():
            self._body.close(
                Parked((*self._body.unsent, *(call.wait for call in waits if call.wait is not None)))
            )
        elif waits:
            self.work(self._store(waits))

    def _open(self) -> list[Call]:
        """The calls that suspend a branch now."""
        return [
            branch.call
            for branch in self._tree.live.values()
            if branch.call is not None and branch.call.waits
        ]

    def _stuck(self) -> bool:
        """Whether every leaf of the tree waits for an answer of ours, and no timer of its own could change
        that."""
        leaves = [branch for branch in self._tree.live.values() if branch.live_children == 0]
        return all(leaf.call is not None and leaf.call.waits for leaf in leaves) and not self._has_timers()

    def _has_timers(self) -> bool:
        """Whether the body itself (no step of it) waits for time in its own way: asyncio.sleep,
        asyncio.timeout.

        Such a wait ends with the worker's clock, so the run keeps its place until then. asyncio's own loops
        can be asked; on another loop a run parks without regard to them.
        """
        timers = getattr(self._loop, "_scheduled", ())
        return any(not timer.cancelled() and timer._context.get(PLACE) is self._body for timer in timers)

    # -- beside the body

    def work(self, coro: Coroutine[Any, Any, None]) -> None:
        """Run a write or a read of the log beside the body; its end is looked at."""
        doing = asyncio.Task(self._guarded(coro), loop=self._loop, context=contextvars.Context())
        self.working.add(doing)

    async def _guarded(self, coro: Coroutine[Any, Any, None]) -> None:
        try:
            await coro
        except LeaseLost:
            self._body.lose()
        finally:
            self.working.discard(asyncio.current_task())
            self.poke()

    async def _read_log(self) -> None:
        self.gap = False
        self.log.add(await self._body.port.read_log(self._body.claim.lease))

    async def _store(self, waits: list[Call]) -> None:
        for call in waits:
            call.stored = True
        await self._body.record([call.wait for call in waits if call.wait is not None])

    async def _put_back(self, entry: Entry) -> None:
        """An event was taken by a wait that its own body had given up: whoever waits next is to have it."""
        assert entry.value is not None
        claim = self._body.claim
        again = f"unwaited/{entry.branch}/{entry.number}"
        await self._body.port.resend(claim.lease, claim.run_id, entry.name, entry.value, again)
