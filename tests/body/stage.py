"""A stage for one run: its log as a store keeps it, and life after life of its body, without waiting for
time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec

from pyrula.model.lease import Lease
from pyrula.model.outcome import Outcome, Parked, Retry
from pyrula.model.payload import decode
from pyrula.model.step import Entry
from pyrula.policies.retry import NO_RETRY, RetryStamp
from pyrula.policies.stamp import Stamp
from pyrula.store.protocol import Claim
from pyrula.testing.clock import VirtualClock
from pyrula.workflows.body import Body, branching
from pyrula.workflows.workflow import Registry, Workflow, workflow

START = 1_800_000_000_000_000
Fn = Callable[..., Coroutine[Any, Any, Any]]


class Stage:
    """Port of the bodies of one run. `log` is what survives; `written` counts the writes."""

    def __init__(
        self,
        fn: Fn,
        params: dict[str, Any] | None = None,
        retry: RetryStamp = NO_RETRY,
        timeout: int | None = None,
    ) -> None:
        self.workflow: Workflow[..., Any] = (
            workflow(fn, registry=Registry()) if not isinstance(fn, Workflow) else fn
        )
        self.params = params or {}
        self.stamp = Stamp(retry=retry, timeout_us=timeout)
        self.clock = VirtualClock()
        self.log: dict[tuple[str, int], Entry] = {}
        self.logged = 0
        self.attempt = 1
        self.children: list[tuple[str, str, dict[str, Any]]] = []
        self.resent: list[tuple[str, bytes, str]] = []
        self.written = 0
        self.executing = 0
        self.body: Body | None = None
        self._pool = ThreadPoolExecutor(8)
        self._outcome: asyncio.Future[Outcome | None] | None = None

    # -- lives

    def begin(self) -> Body:
        """Start a body over the log."""
        loop = asyncio.get_running_loop()
        self._outcome = loop.create_future()
        claim = Claim(
            lease=Lease(1, 1),
            run_id="run-1",
            workflow=self.workflow.name,
            params=msgspec.json.encode(self.params),
            attempt=self.attempt,
            claimed_at=self.now(),
            stamp=self.stamp,
            log=tuple(self.entries()),
        )
        self.body = body = Body(claim, self.workflow, self, loop)
        body.start()
        return body

    async def life(self, *during: Callable[[], Any]) -> Outcome | None:
        """One life of the body to its outcome, which is written down. during: done one by one, when it has
        settled."""
        with branching(asyncio.get_running_loop()):
            self.begin()
            for act in during:
                await self.settled()
                act()
            assert self._outcome is not None
            async with asyncio.timeout(20):
                outcome = await self._outcome
        self.hand_in(outcome)
        return outcome

    async def settled(self, rounds: int = 60) -> None:
        """Let the loop run what it has."""
        for _ in range(rounds):
            await asyncio.sleep(0)

    def hand_in(self, outcome: Outcome | None) -> None:
        match outcome:
            case Parked(entries=entries):
                self.append(entries)
            case Retry(drop=drop):
                self.attempt += 1
                for key in drop:
                    self.log.pop(key, None)

    # -- the log

    def entries(self) -> list[Entry]:
        return sorted(self.log.values(), key=lambda e: (e.order == 0, e.order, e.branch, e.number))

    def append(self, entries: Sequence[Entry]) -> list[Entry]:
        answers = []
        for entry in entries:
            key = (entry.branch, entry.number)
            if key not in self.log:
                order = 0
                if entry.status != "waiting":
                    self.logged += 1
                    order = self.logged
                self.log[key] = msgspec.structs.replace(entry, order=order)
            answers.append(self.log[key])
        return answers

    def settle(self, branch: str, number: int, value: Any = None, status: str = "done") -> None:
        """Settle a waiting entry, as the store does at its time; a body that lives is told."""
        entry = self.log[branch, number]
        assert entry.status == "waiting"
        self.logged += 1
        data = msgspec.json.encode(value)
        self.log[branch, number] = msgspec.structs.replace(
            entry, status=status, value=data, order=self.logged
        )
        if self.body is not None:
            self.body.news()

    def calls(self) -> list[tuple[str, int, str, str]]:
        """(branch, number, kind, status) of the log."""
        return [(e.branch, e.number, e.kind, e.status) for _, e in sorted(self.log.items())]

    # -- the port

    def now(self, shard: int = 0) -> int:
        return START + self.clock.monotonic()

    async def record(self, lease: Lease, entries: Sequence[Entry]) -> list[Entry]:
        self.written += 1
        await asyncio.sleep(0)
        return self.append(entries)

    async def read_log(self, lease: Lease) -> list[Entry]:
        return self.entries()

    async def submit_child(
        self,
        workflow: Any,
        params: Mapping[str, Any] | None,
        run_id: str,
        parent: str,
        options: Mapping[str, Any],
    ) -> str:
        name = workflow if isinstance(workflow, str) else workflow.name
        await asyncio.sleep(0)
        self.children.append((run_id, name, dict(params or {})))
        return run_id

    async def resend(self, lease: Lease, run_id: str, name: str, payload: bytes, event_id: str) -> None:
        self.resent.append((name, payload, event_id))

    def thread(self, call: Callable[[], Any]) -> Future[Any]:
        return self._pool.submit(call)

    tracer = None

    def step_began(self) -> None:
        self.executing += 1

    def step_ended(self) -> None:
        self.executing -= 1

    def ended(self, body: Body, outcome: Outcome | None) -> None:
        assert self._outcome is not None and not self._outcome.done()
        self._outcome.set_result(outcome)


def result(outcome: Outcome | None) -> Any:
    """What a completed run answered."""
    return decode(outcome.result)  # type: ignore[union-attr]  # a test fails here if it did not complete
