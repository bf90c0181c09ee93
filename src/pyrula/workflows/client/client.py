"""WorkflowClient: submit, wait, trigger, cancel, see and steer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Unpack

from pyrula.errors import RunIdConflict, RunNotFound
from pyrula.limiters import LimiterConfig
from pyrula.model.duration import Duration
from pyrula.model.payload import MAX_PAYLOAD, encode
from pyrula.model.run import FINAL, Run
from pyrula.store.protocol import Gate, Store, check_store
from pyrula.workflows import prepare
from pyrula.workflows.catalogue import Catalogue, name_of
from pyrula.workflows.client import lent, limiting, steering
from pyrula.workflows.client.ending import ending, unknown_run
from pyrula.workflows.client.page import RunPage
from pyrula.workflows.client.waits import Waits
from pyrula.workflows.named import A, Named
from pyrula.workflows.workflow import Registry, check_registry

if TYPE_CHECKING:
    from pyrula.workflows.client.blocking import BlockingClient

_MOST_GATES: Final = 1_000_000
Name = Named[Any]


class WorkflowClient:
    """The way in to a store: every call is checked before anything is stored, and durable once it returns.

    store: of `open_store`. registry: the workflows that it knows by code; the default one if left out. One
    client serves any number of coroutines of one event loop; for code without one there is `blocking`.
    """

    def __init__(self, store: Store, registry: Registry | None = None) -> None:
        check_store("WorkflowClient: store", store)
        check_registry("WorkflowClient: registry", registry)
        self._store = store
        self._catalogue = Catalogue(store, registry)
        self._waits = Waits(store)

    @property
    def store(self) -> Store:
        """The store it talks to."""
        return self._store

    @cached_property
    def blocking(self) -> BlockingClient:
        """The same calls for code without an event loop: they block the calling thread."""
        from pyrula.workflows.client.blocking import BlockingClient  # it is made of this class's methods

        return BlockingClient(self)

    # -- submitting

    async def submit(
        self,
        workflow: Name,
        params: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        priority: int | None = None,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        expires_in: Duration | None = None,
        connection: Any = None,
    ) -> str:
        """Store a run and answer its id. The same `run_id` with the same params is one run, while it is
        kept.

        params: a JSON object of the body's parameters. priority: 1 (first) to 5, in place of the declared
        one. delay: seconds or timedelta until it may start; run_at: an aware datetime instead. expires_in:
        drop the run if it has not started within this. connection: a PostgreSQL connection of psycopg (sync or
        async) or asyncpg, or a Session or Connection of SQLAlchemy (sync or async), with a transaction open, on the
        database of the store: the run is part of that transaction, rolled back with it and seen by workers once it
        commits. Raises `InvalidParams`, `NotJson`, `PayloadTooLarge`
        (1 MiB), `InvalidPayload`, `KeyFailed`, `KeyNeedsCode`, `WorkflowNotFound`, all with nothing stored,
        and `RunIdConflict`.
        """
        run_ids = None if run_id is None else [run_id]
        answers = await self.submit_many(
            workflow,
            [{} if params is None else params],
            run_ids=run_ids,
            priority=priority,
            delay=delay,
            run_at=run_at,
            expires_in=expires_in,
            connection=connection,
        )
        return answers[0]

    async def submit_many(
        self,
        workflow: Name,
        params: Iterable[Mapping[str, Any]],
        *,
        run_ids: Sequence[str] | None = None,
        priority: int | None = None,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        expires_in: Duration | None = None,
        connection: Any = None,
    ) -> list[str]:
        """Store a run for each of `params`, in this order and at once; answers their ids. Raises like
        `submit`.

        run_ids: one for each. If one of them is taken by a run with other params, `RunIdConflict` names it;
        the others are stored.
        """
        when = prepare.options(delay, run_at, expires_in)
        stamper = await self._catalogue.find(workflow)
        many = prepare.json_objects("submit_many: params", params, "params")
        ids = prepare.one_for_each("submit_many: run_ids", run_ids, many)
        encoded = prepare.one_by_one(many, lambda each: prepare.encoded(each, "params"))
        stamped = prepare.one_by_one(many, lambda each: stamper.stamp(each, priority))
        submissions = [
            prepare.submission(stamper.name, data, stamp, when, given)
            for data, stamp, given in zip(encoded, stamped, ids, strict=True)
        ]
        if not submissions:
            return []
        answers = await lent.submit(self._store, connection, submissions)
        taken = [answer.run_id for answer in answers if answer.conflict]
        if taken:
            raise RunIdConflict(
                f"run id {', '.join(map(repr, taken[:5]))} is taken by a run with other params or of another "
                f"workflow, and this one of {stamper.name!r} was not stored; take another id, or look "
                "at it with client.get"
            )
        return [answer.run_id for answer in answers]

    async def execute(
        self,
        workflow: Named[A],
        params: Mapping[str, Any] | None = None,
        *,
        timeout: Duration | None = None,
        run_id: str | None = None,
        priority: int | None = None,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        expires_in: Duration | None = None,
    ) -> A:
        """Submit a run and wait for its result. Raises like both; a wait that times out ends no run."""
        within = None if timeout is None else prepare.duration("execute: timeout", timeout)
        submitted = await self.submit(
            workflow,
            params,
            run_id=run_id,
            priority=priority,
            delay=delay,
            run_at=run_at,
            expires_in=expires_in,
        )
        answer: A = await self._result(submitted, within)
        return answer

    async def result(self, run_id: str, timeout: Duration | None = None) -> Any:
        """Wait until the run has ended, and answer what its body returned.

        timeout: seconds or timedelta to wait at most; None waits for ever. Raises `RunFailed`,
        `RunCancelled`, `RunExpired`, `RunNotFound`, and TimeoutError, after which the run goes on.
        """
        within = None if timeout is None else prepare.duration("result: timeout", timeout)
        return await self._result(prepare.text("result: run_id", run_id), within)

    async def _result(self, run_id: str, within: int | None) -> Any:
        found = await self._waits.ended(run_id, within)
        if found is None:
            run = await self.get(run_id)
            raise TimeoutError(
                f"run {run_id!r} of {run.workflow!r} is still {run.state}; client.why(run_id) says why"
            )
        return ending(run_id, *found)

    # -- events

    async def trigger(
        self, workflow: Name, event: Mapping[str, Any], *, event_id: str | None = None
    ) -> str | None:
        """Buffer an event; answers the run's id if it completes a Collect batch, else None. (Seed:
        flow-control.)

        event_id: given twice for a workflow and key, it counts once and gets the first answer. Raises like
        `submit`.
        """
        return (
            await self.trigger_many(workflow, [event], event_ids=None if event_id is None else [event_id])
        )[0]

    async def trigger_many(
        self, workflow: Name, events: Iterable[Mapping[str, Any]], *, event_ids: Sequence[str] | None = None
    ) -> list[str | None]:
        """Buffer events in this order, all or none; answers per event as `trigger` does."""
        stamper = await self._catalogue.find(workflow)
        many = prepare.json_objects("trigger_many: events", events, "event")
        ids = prepare.one_for_each("trigger_many: event_ids", event_ids, many)
        encoded = prepare.one_by_one(many, lambda each: prepare.encoded(each, "event"))
        stamped = prepare.one_by_one(many, stamper.stamp_event)
        buffered = [
            prepare.trigger_event(stamper.name, data, stamp, given)
            for data, stamp, given in zip(encoded, stamped, ids, strict=True)
        ]
        return await self._store.trigger(buffered) if buffered else []

    async def send_event(
        self, run_id: str, name: str, payload: Any = None, *, event_id: str | None = None
    ) -> None:
        """Send an event to a run, for its `ctx.wait_for_event(name)`; it is kept until the run takes it.

        payload: a JSON value of up to 1 MiB. event_id: given twice for a run, it counts once. Raises
        `RunNotFound` if no unfinished run has that id.
        """
        data = encode(payload, "payload", MAX_PAYLOAD)
        if event_id is not None:
            prepare.named("send_event: event_id", event_id)
        prepare.text("send_event: run_id", run_id)
        if not await self._store.send_event(run_id, prepare.named("send_event: name", name), data, event_id):
            run = await self.get(run_id)
            raise RunNotFound(
                f"run {run_id!r} is {run.state}: it takes no events any more, and {name!r} was not kept"
            )

    async def flush(self, workflow: Name, key: object = "") -> str | None:
        """Fire the buffer of `key` now; answers the run's id, None if that buffer is empty. Raises
        `WorkflowNotFound`, and `ConfigurationError` for a workflow that has neither a trigger nor such a buffer."""
        name, stored = name_of(workflow), prepare.stored_key(key) or ""
        made = await self._store.flush(name, stored)  # a buffer outlives the declaration that filled it
        if made is None:
            await self._catalogue.check_triggered(workflow)
        return made

    # -- ending and restarting

    async def cancel(self, run_id: str) -> bool:
        """Ask for a run to be cancelled; False if it had ended. One that executes ends once its body has
        stopped.

        Its children are cancelled too. Raises `RunNotFound`.
        """
        (before,) = await self._store.cancel([prepare.text("cancel: run_id", run_id)])
        return self._existed(run_id, before) not in FINAL

    async def cancel_many(self, run_ids: Iterable[str]) -> list[bool]:
        """`cancel` for each of them, at once; False for those that had ended and those that are unknown."""
        known = prepare.several("cancel_many: run_ids", run_ids)
        before = await self._store.cancel([prepare.text("cancel_many: run_id", each) for each in known])
        return [state != "" and state not in FINAL for state in before]

    async def retry(self, run_id: str) -> bool:
        """Take up again a run that failed, was cancelled or expired, or was set aside; False if it is none
        of these.

        Steps that succeeded are not repeated. It queues for its gates as stamped. Raises `RunNotFound`.
        """
        aside = (await self.get(run_id)).state == "parked"
        (before,) = await self._store.retry([run_id])
        state = self._existed(run_id, before)
        return state in FINAL - {"completed"} or (aside and (await self.get(run_id)).state == "queued")

    # -- seeing

    async def get(self, run_id: str) -> Run:
        """The run, as it is now. Raises `RunNotFound`."""
        run = await self._store.get(prepare.text("run_id", run_id))
        if run is None:
            raise unknown_run(run_id)
        return run

    async def runs(
        self,
        workflow: Name | None = None,
        state: str | None = None,
        key: object = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> RunPage:
        """Runs, newest first. state: as `Run.state` has it. key: of the run's fairness unit or first gate.

        The page's `cursor` gives the next one. Raises `InvalidPayload` for a state that does not exist, a limit
        outside 1 to 1000, or a cursor that no page gave.
        """
        steering.check_listing(state, limit, cursor)
        name = None if workflow is None else name_of(workflow)
        found, following = await self._store.runs(name, state, prepare.stored_key(key), limit, cursor)
        return RunPage(found, following)

    async def why(self, run_id: str) -> dict[str, Any]:
        """Every reason why the run is not executing: gates with their numbers and holders, its place in
        line, and when.

        Raises `RunNotFound`.
        """
        reasons = await self._store.why(prepare.text("why: run_id", run_id))
        if reasons is None:
            raise unknown_run(run_id)
        return reasons

    async def gates(self, name: str | None = None, key: object = None, limit: int = 1000) -> list[Gate]:
        """The counters in use: slots, tokens, who holds them, how many runs wait. name, key: of one gate, of
        one key.
        """
        named = None if name is None else prepare.text("gates: name", name)
        return await self._store.gates(
            named, prepare.stored_key(key), prepare.page_length("gates: limit", limit, _MOST_GATES)
        )

    async def buffers(self, workflow: Name | None = None) -> list[dict[str, Any]]:
        """Buffers of events that have not fired: workflow, key, count, when they are due."""
        return await self._store.buffers(None if workflow is None else name_of(workflow))

    # -- steering: at once, for queued runs too; it outlives deploys

    async def override_limit(
        self, gate: str, key: object = None, *, max: int, expires_in: Duration | None = None
    ) -> None:
        """Have a Limit admit `max` in place of what runs are stamped with.

        key: of one key only; it beats an override of all. expires_in: it lapses by itself. Raises
        `GateNotFound`, and `ConfigurationError` for a bad number.
        """
        number = steering.limit_number(gate, max)
        await self._store.override(_gate(gate), prepare.stored_key(key), number, _within(expires_in))

    async def override_rate(
        self,
        gate: str,
        key: object = None,
        *,
        per_second: float,
        burst: int | None = None,
        expires_in: Duration | None = None,
    ) -> None:
        """Have a Rate start `per_second` runs in bursts of `burst` (default: `per_second`, rounded up); else
        as `override_limit`.
        """
        number = steering.rate_number(gate, per_second, burst)
        await self._store.override(_gate(gate), prepare.stored_key(key), number, _within(expires_in))

    async def clear_override(self, gate: str, key: object = None) -> None:
        """Take back an override of the gate, or of one key of it: what runs are stamped with holds again."""
        await self._store.override(_gate(gate), prepare.stored_key(key), None, None)

    async def pause(self, gate: str, key: object = None, until: Duration | datetime | None = None) -> None:
        """Start no run of this gate: for seconds or a timedelta, until an aware datetime, or (None) until
        `resume`.

        What executes goes on. key: of one key only. Raises `GateNotFound`.
        """
        left = prepare.moment("pause: until", until, self._store.clock.wall())
        await self._store.pause(_gate(gate), prepare.stored_key(key), left)

    async def resume(self, gate: str, key: object = None) -> None:
        """End a pause of this gate, or of one key of it. Raises `GateNotFound`."""
        await self._store.resume(_gate(gate), prepare.stored_key(key))

    async def restamp(self, workflow: Name) -> int:
        """Give the queued runs of a workflow the current declaration; answers how many it was given to.

        The declaration is this process's code if it has imported the workflow, else the newest that a worker
        registered.
        """
        stamper = await self._catalogue.find(workflow)
        return await self._store.restamp(stamper.name, stamper.restamp)

    # -- limiters of workers in other processes

    async def get_limiter_config(self, worker_id: str) -> LimiterConfig:
        """The limiters of a live worker: in force, or set and about to be. Raises `WorkerNotFound`."""
        return await limiting.get(self._store, worker_id)

    async def set_limiter_config(
        self, worker_id: str | None, **changes: Unpack[limiting.Changes]
    ) -> dict[str, LimiterConfig]:
        """Change `limits`, `task_poller_limiter`, `limiter_check_frequency` of a live worker, or (None) of all, as
        `Worker.set_limiter_config` does; it has them within a second. Answers per worker what it will have.

        Workers that start later are not concerned. Raises `ConfigurationError`, with nothing stored; TypeError for
        another argument; `WorkerNotFound`.
        """
        return await limiting.configure(self._store, worker_id, changes)

    def _existed(self, run_id: str, state: str) -> str:
        if state == "":
            raise unknown_run(run_id)
        return state


def _gate(name: str) -> str:
    return prepare.text("gate", name)


def _within(expires_in: Duration | None) -> int | None:
    return None if expires_in is None else prepare.positive("override: expires_in", expires_in)
