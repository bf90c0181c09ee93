"""`/runs`: list them, look at one, wait for its result, ask why it waits, cancel and retry it."""

from __future__ import annotations

from typing import Any, Final, get_args

from pyrula.errors import RunNotFound, shown
from pyrula.model.run import FINAL, Run, RunState
from pyrula.web import wire
from pyrula.web.call import LONGEST_WAIT, Answer, Call, Operation, looks, steers
from pyrula.workflows.client.waits import Ending

_STATES: Final = get_args(RunState)


async def listing(call: Call) -> wire.RunList:
    """Runs, newest first."""
    query = call.query
    page = await call.client.runs(
        query["workflow"], query["state"], query["key"], query["limit"], query["cursor"]
    )
    return wire.RunList(items=[wire.RunRow.of(run) for run in page], cursor=page.cursor)


async def one(call: Call) -> Run:
    """A run as it stands."""
    run = await call.client.get(call.path["run_id"])
    _check_seen(call, run.run_id, run.workflow)
    return run


def _check_seen(call: Call, run_id: str, workflow: str) -> None:
    """Raises `RunNotFound` where the token sees runs of other workflows only."""
    if call.who.access == "submit" and not call.who.may("submit", workflow):
        raise RunNotFound(f"no run {shown(run_id)} of a workflow that this token may submit")


async def result(call: Call) -> Answer:
    """How it ended; 202 with its state while it has not, after waiting for up to ?wait= seconds."""
    run = await one(call)
    if run.state not in FINAL and call.query["wait"] > 0:
        await call.until(_ended(call, run.run_id, call.query["wait"]), call.query["wait"])
        run = await one(call)
    answer = wire.Result(run_id=run.run_id, state=run.state, result=run.result, error=run.error)
    return Answer(answer, 200 if run.state in FINAL else 202)


async def _ended(call: Call, run_id: str, seconds: float) -> Ending | None:
    return await call.services.waits.ended(run_id, int(seconds * 1_000_000))


async def why(call: Call) -> dict[str, Any]:
    """Every reason why it is not executing; also of a stream's record that no run could be made of."""
    answer = await call.client.why(call.path["run_id"])
    _check_seen(call, answer["run_id"], answer["workflow"])
    return answer


async def steps(call: Call) -> wire.Listing:
    """Its log: what its body asked for, when, and what came of it."""
    run = await one(call)
    return wire.Listing(items=await call.services.store.steps(run.run_id, call.query["limit"]))


async def children(call: Call) -> wire.Listing:
    """The runs that it submitted, oldest first."""
    run = await one(call)
    return wire.Listing(items=await call.services.store.children(run.run_id, call.query["limit"]))


async def cancel(call: Call) -> wire.Cancelled:
    """Ask for its cancellation."""
    run_id = call.path["run_id"]
    accepted = await call.client.cancel(run_id)
    call.audit("cancel", run_id=run_id, accepted=accepted)
    return wire.Cancelled(run_id=run_id, accepted=accepted)


async def retry(call: Call) -> wire.Cancelled:
    """Take it up again."""
    run_id = call.path["run_id"]
    accepted = await call.client.retry(run_id)
    call.audit("retry", run_id=run_id, accepted=accepted)
    return wire.Cancelled(run_id=run_id, accepted=accepted)


async def send_event(call: Call) -> wire.Done:
    """Send it an event that its body waits for."""
    run_id, name = call.path["run_id"], call.path["event"]
    event_id = call.request.headers.get("idempotency-key")
    await call.client.send_event(run_id, name, call.body, event_id=event_id)
    call.audit("send_event", run_id=run_id, event=name)
    return wire.Done()


_UNKNOWN: Final = ("run_not_found",)

OPERATIONS: Final[tuple[Operation, ...]] = (
    looks(
        "/runs",
        listing,
        "Runs, newest first",
        wire.RunList,
        wire.Query(name="workflow", about="of this workflow", most=200),
        wire.Query(name="state", about="in this state", choices=_STATES),
        wire.Query(name="key", about="of this key: of the fairness unit, else of the first gate"),
        wire.LIMIT,
        wire.CURSOR,
    ),
    looks("/runs/{run_id}", one, "One run", Run, right="seen", problems=_UNKNOWN),
    Operation(
        "GET",
        "/runs/{run_id}/result",
        result,
        "seen",
        "Its result, waited for",
        {200: wire.Result, 202: wire.Result},
        (
            wire.Query(
                name="wait", kind="number", about="seconds to wait", default=0, least=0, most=LONGEST_WAIT
            ),
        ),
        problems=_UNKNOWN,
        waits=True,
    ),
    looks(
        "/runs/{run_id}/why",
        why,
        "Every reason why it is not executing",
        dict[str, Any],
        right="seen",
        problems=_UNKNOWN,
    ),
    looks("/runs/{run_id}/steps", steps, "Its log", wire.Listing, wire.LIMIT, problems=_UNKNOWN),
    looks(
        "/runs/{run_id}/children",
        children,
        "Runs that it submitted",
        wire.Listing,
        wire.LIMIT,
        problems=_UNKNOWN,
    ),
    steers("/runs/{run_id}/cancel", cancel, "Cancel it", wire.Cancelled, wire.Nothing, *_UNKNOWN),
    steers(
        "/runs/{run_id}/retry",
        retry,
        "Take up again a run that failed, expired, was cancelled or set aside",
        wire.Cancelled,
        wire.Nothing,
        *_UNKNOWN,
    ),
    steers(
        "/runs/{run_id}/events/{event}",
        send_event,
        "Send it an event",
        wire.Done,
        dict,
        *_UNKNOWN,
        "invalid_payload",
    ),
)
