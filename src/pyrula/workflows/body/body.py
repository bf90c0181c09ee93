"""One claimed run under way: its tasks from the first line to the last, and the outcome that comes of it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterable
from typing import Any

from pyrula import ids
from pyrula.errors import LeaseLost, PyrulaError
from pyrula.model.outcome import Cancelled, Outcome, Parked, Released
from pyrula.model.payload import decode
from pyrula.model.step import Entry, Kind, call_of, pauses
from pyrula.policies.retry import NO_RETRY
from pyrula.store.protocol import Claim
from pyrula.workflows.body.branches import Branch, Tree
from pyrula.workflows.body.call import Call, marks
from pyrula.workflows.body.contained import Contained
from pyrula.workflows.body.context import Context
from pyrula.workflows.body.ending import (
    asked_for_later,
    error_value,
    failed,
    is_final,
    postponed,
    returned,
    set_aside,
)
from pyrula.workflows.body.place import PLACE, BodyClosed, Inside
from pyrula.workflows.body.port import Port
from pyrula.workflows.body.redo import Asked, made_anew
from pyrula.workflows.body.replay import described
from pyrula.workflows.body.teller import Teller
from pyrula.workflows.prepare import text
from pyrula.workflows.workflow import Workflow

_METHODS = {"event": "wait_for_event", "child": "run_child"}
"""What asks for a kind of entry, where it is called otherwise."""


class Body:
    """Runs one claim to an outcome, which it hands to `port.ended` once its tasks and threads are over."""

    def __init__(
        self, claim: Claim, workflow: Workflow[..., Any], port: Port, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.claim = claim
        self.workflow = workflow
        self.port = port
        self.loop = loop
        self.tree = Tree()
        self.teller = Teller(self, claim.log, self.tree, loop)
        self.unsent: list[Entry] = []
        """Answers that were given on the spot; they go into the log with the next write."""
        self.closing = False
        self.outcome: Outcome | None = None
        self.threads = 0
        self._asked: list[Asked] = []
        self._main: asyncio.Task[Any] | None = None
        self._recording = 0
        self._finished = False
        self._watch: asyncio.Task[None] | None = None

    # -- what the worker calls

    def start(self) -> None:
        """Begin. The body's first line runs in the loop's next round."""
        try:
            params = self.workflow.signature.convert(decode(self.claim.params))
            coro = Contained(self.workflow.fn(Context(self), **params))
        except (Exception, SystemExit) as error:  # params of an older declaration, perhaps
            self.close(self._failed(error))
            return
        context = contextvars.copy_context()
        context.run(PLACE.set, self)
        if self.port.tracer is not None:
            self.port.tracer.began(self.claim, context)
        # Made directly: neither a branch of itself, nor any affair of a factory that others put on the loop.
        self._main = asyncio.Task(coro, loop=self.loop, name=self.claim.run_id, context=context)
        self._began(self._main, self.tree.main)
        if self.claim.stamp.timeout_us is not None:
            self._watch = self.after(self.claim.stamp.timeout_us, self._time_out)

    def cancel(self) -> None:
        """Somebody cancelled the run."""
        self.close(Cancelled())

    def release(self) -> None:
        """The worker stops: hand the run back."""
        self.close(Released())

    def lose(self) -> None:
        """The lease is gone: stop, and hand in nothing."""
        self.close(None)
        self.outcome = None

    def news(self) -> None:
        """A wait of this run was settled: read its log."""
        if not self.closing:
            self.teller.gap = True
            self.teller.poke()
        elif isinstance(self.outcome, Parked):  # it parked before it heard of it, and nobody would wake it
            self.outcome = Released()

    # -- what contexts call

    def ask(self, kind: Kind, name: str) -> tuple[Call, Entry | None]:
        """Number a call in its branch, and find the log's entry for it. Closes the body if that is of another
        call."""
        branch = self._asking(kind, name)
        entry = self._entry(branch, kind)
        key = (branch.path, branch.numbered)
        if entry is not None and (entry.kind, entry.name) != (kind, name):
            self.mismatch(entry, f"the body asks for {described(kind, name, *key)}")
            raise BodyClosed(f"run {self.claim.run_id} was set aside")
        self._number(branch)
        return self.teller.call(branch, key, kind, name), entry

    def answered(self, kind: Kind, name: str, value: bytes) -> bytes:
        """The answer to a call that is answered on the spot: the log's, else `value`, which is logged."""
        call, entry = self.ask(kind, name)
        call.branch.call = None
        if entry is not None and entry.value is not None:
            return entry.value
        self.unsent.append(Entry(*call.key, kind, name, "done", value))
        return value

    def patched(self, name: str) -> bool:
        """Whether this run first came here in code that has the patch."""
        branch = self._asking("patched", name)
        number = branch.numbered
        entry = self.teller.log.get(branch.path, number)
        if entry is None:
            if self.teller.log.last_number(branch.path) > number:
                return False
            self.unsent.append(Entry(branch.path, number, "patch", name, "done", b"true"))
        elif (entry.kind, entry.name) != ("patch", name):
            return False
        self._number(branch)
        return True

    def draw(self) -> tuple[str, int]:
        """A branch and a number in it that no other draw has: what is derived from them needs no log."""
        branch = self._asking("random", "")
        branch.draws += 1
        return branch.path, branch.draws

    async def wait(self, kind: Kind, name: str, duration: int | None) -> Any:
        """Wait for an event or a moment, `duration` µs from when it is first asked for; what it is settled
        with."""
        call, entry = self.ask(kind, name)
        if entry is None:
            due = None if duration is None else self.port.now(self.claim.lease.shard) + duration
            call.wait = Entry(*call.key, kind, name, "waiting", None, due)
        elif entry.status == "waiting":
            call.wait, call.stored = entry, True
        try:
            return await self.teller.told(call)
        finally:
            call.branch.call = None

    def here(self) -> Branch:
        """The branch of the current task; one that nobody saw begin (made around the factory) becomes one
        now."""
        task = asyncio.current_task(self.loop)
        if task is None:
            return self.tree.main
        branch = self.tree.live.get(task)
        if branch is None:
            starting = self.tree.starting
            branch = starting[-1] if starting else self.tree.grow(self.tree.main, self.teller.log.delivered)
            self._began(task, branch)
        return branch

    def _asking(self, kind: str, name: str) -> Branch:
        place, asked = PLACE.get(), _METHODS.get(kind, kind)
        if type(place) is Inside:
            raise RuntimeError(
                f"ctx.{asked} ({name!r}) was asked for inside step {place.step!r}, which is recorded as one: "
                "ask in the body, and pass the answer to the step as an argument"
            )
        if type(name) is not str or not name.isascii() or "\0" in name:
            text(f"ctx.{asked}: the name", name)  # one that the log can't hold would fail turn after turn
        if self.closing:
            raise BodyClosed(
                f"run {self.claim.run_id} has parked or ended: ctx.{asked} ({name!r}) comes too late"
            )
        return self.here()

    def _entry(self, branch: Branch, kind: Kind) -> Entry | None:
        """The log's entry at the branch's position. Patches that the code no longer asks about are passed
        over."""
        entry = self.teller.log.get(branch.path, branch.numbered)
        while entry is not None and entry.kind == "patch" and kind != "patch":
            branch.numbered += 1
            entry = self.teller.log.get(branch.path, branch.numbered)
        return entry

    def _number(self, branch: Branch) -> None:
        self._asked.append(Asked(branch, branch.numbered, self.teller.log.delivered))
        branch.numbered += 1

    async def record(self, entries: Iterable[Entry]) -> None:
        """Write entries, and what is unsent, to the log. Raises `BodyClosed` if the lease is lost."""
        passive, self.unsent = self.unsent, []
        self._recording += 1
        try:
            settled = await self.port.record(self.claim.lease, (*passive, *entries))
            self.teller.take(settled)
        except LeaseLost:
            self.lose()
            raise BodyClosed(f"run {self.claim.run_id}: its lease is lost") from None
        except BaseException:
            self.unsent = passive + self.unsent  # written or not: what is written twice is written once
            raise
        finally:
            self._recording -= 1
            if self.closing or self.tree.grown:
                self.teller.poke()

    def after(self, duration: int, call: Callable[[], object]) -> asyncio.Task[None]:
        """Call `call` after `duration` µs, unless the task answered is cancelled before."""

        async def later() -> None:
            await self.port.clock.sleep(duration)
            call()

        return asyncio.Task(later(), loop=self.loop, context=contextvars.Context())

    def thread_over(self) -> None:
        """A thread of the body has ended."""
        self.threads -= 1
        if self.closing:
            self.finish()

    # -- branches

    def branch_off(self, make: Callable[[], asyncio.Task[Any]], *, inline: bool) -> asyncio.Task[Any]:
        """Make a task that is a branch of the one that starts it; inline: one that goes on in its place."""
        here = self.here()
        branch = here if inline else self.tree.grow(here, self.teller.log.delivered)
        self.tree.starting.append(branch)
        try:
            task = make()
        finally:
            self.tree.starting.pop()
        if task not in self.tree.live:
            self._began(task, branch)
        if self.closing:
            task.cancel()
        return task

    def _began(self, task: asyncio.Task[Any], branch: Branch) -> None:
        self.tree.began(task, branch)
        task.add_done_callback(self._ended, context=contextvars.Context())

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.tree.over(task)
        if self.closing:
            if not task.cancelled():
                task.exception()  # it is ignored, and asyncio need not complain that it is
            self.finish()
        elif task is self._main:
            self._conclude(task)
        else:
            self.teller.poke()

    # -- the end

    def _conclude(self, task: asyncio.Task[Any]) -> None:
        """The body has returned or raised."""
        if task.cancelled():
            self.close(self._failed(asyncio.CancelledError("the body was cancelled by its own code")))
        elif (error := task.exception()) is not None:
            later = asked_for_later(error)
            self.close(postponed(later) if later is not None else self._failed(error))
        elif (entry := self._unasked()) is not None:
            self.mismatch(entry, "the body returned without asking for it")
        else:
            try:
                outcome: Outcome = returned(task.result())
            except PyrulaError as refused:
                outcome = self._failed(refused)
            self.close(outcome)

    def _unasked(self) -> Entry | None:
        """A logged entry that the body should have asked for: its branch ended undisturbed, or never
        began."""
        for entry in self.teller.log.left():
            place = (entry.branch, entry.number)
            if place in self.teller.calls or call_of(*place) != place:
                continue
            branch = self.tree.by_path.get(entry.branch)
            if branch is None or (branch.ended and not branch.cancelled):
                return entry
        return None

    def _failed(self, error: BaseException) -> Outcome:
        claim, log = self.claim, self.teller.log
        drop = made_anew(marks(error), self._asked, log.told)
        drop += log.kept_in({pauses(key) for key in drop})  # a step that is made anew has all its tries again
        retry = NO_RETRY if is_final(error) else claim.stamp.retry
        return failed(error_value(error), claim.attempt, retry, ids.chance(), drop)

    def _time_out(self) -> None:
        seconds = (self.claim.stamp.timeout_us or 0) / 1_000_000
        self.close(
            self._failed(TimeoutError(f"attempt {self.claim.attempt} was not over within {seconds:g} s"))
        )

    def mismatch(self, entry: Entry, found: str) -> None:
        """The body can't be replayed over its log: set the run aside, naming both."""
        logged = described(entry.kind, entry.name, entry.branch, entry.number)
        self.close(
            set_aside(
                f"the log of run {self.claim.run_id} ({self.claim.workflow}) holds {logged}, but {found}; "
                "deploy code that makes the calls of the log (ctx.patched lets old and new runs share it), "
                "or retry the run",
                self.workflow.code,
            )
        )

    def close(self, outcome: Outcome | None) -> None:
        """Stop everything of the body: `outcome` is handed in when it has stopped. The first call decides."""
        if self.closing:
            return
        self.closing, self.outcome = True, outcome
        for task in list(self.tree.live):
            task.cancel()
        self.finish()

    def finish(self) -> None:
        """Hand the outcome in, if nothing of the body is left."""
        if self._finished or self.tree.live or self.threads or self.teller.working or self._recording:
            return
        self._finished = True
        if self._watch is not None:
            self._watch.cancel()
        self.port.ended(self, self.outcome)
        # These point back here: all that belongs to a run would stay until the garbage collector came by.
        self._main = self._watch = None
        self.teller.close()
