"""Children: runs that a run submits, each once however often the body is replayed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from pyrula.ids import child_id
from pyrula.model.duration import Duration
from pyrula.model.payload import encode
from pyrula.model.step import Entry
from pyrula.workflows.body.call import Call, mark
from pyrula.workflows.body.place import PLACE, Inside
from pyrula.workflows.prepare import named

if TYPE_CHECKING:
    from pyrula.workflows.body.body import Body


class SubmitOptions(TypedDict, total=False):
    """What a body may say about a child, as a client's `submit` takes it."""

    run_id: str
    priority: int
    delay: Duration
    run_at: datetime
    expires_in: Duration


async def run_child(
    body: Body, workflow: object, params: Mapping[str, Any] | None, options: dict[str, Any]
) -> Any:
    """The child's result. Raises `RunFailed`, `RunCancelled`, `RunExpired` or `SlotDeadlock`: what it ended
    with."""
    call, entry = body.ask("child", workflow_name(workflow))
    try:
        if entry is None:
            await body.teller.frontier(call)
            child = await _submit(body, call, workflow, params, options)
            call.wait = Entry(*call.key, "child", call.name, "waiting", child.encode())
        elif entry.status == "waiting":
            call.wait, call.stored = entry, True
        return await body.teller.told(call)
    finally:
        call.branch.call = None


async def start_child(
    body: Body, workflow: object, params: Mapping[str, Any] | None, options: dict[str, Any]
) -> str:
    """The child's run id, once it is submitted. The child goes on by itself, but a cancel of the parent
    reaches it."""
    call, entry = body.ask("step", f"start_child {workflow_name(workflow)}")
    try:
        if entry is None:
            await body.teller.frontier(call)
            child = await _submit(body, call, workflow, params, options)
            done = Entry(*call.key, "step", call.name, "done", encode(child))
            place = PLACE.set(Inside(body, call.name, ""))
            try:
                await body.record([done])
            finally:
                PLACE.reset(place)
        return str(await body.teller.told(call))
    finally:
        call.branch.call = None


def workflow_name(workflow: object) -> str:
    """The name of a workflow, or of what is named by text."""
    return workflow if isinstance(workflow, str) else str(getattr(workflow, "name", workflow))


async def _submit(
    body: Body, call: Call, workflow: object, params: Mapping[str, Any] | None, options: dict[str, Any]
) -> str:
    """Submit under an id that a replay finds again; another attempt, whose log has lost the entry, has
    another."""
    claim = body.claim
    branch, number = call.key
    usual = child_id(claim.run_id, f"{branch}:{number}" + (f"@{claim.attempt}" if claim.attempt > 1 else ""))
    given = options.pop("run_id", None)
    run_id = usual if given is None else named("child: run_id", given)
    place = PLACE.set(Inside(body, call.name, ""))
    try:
        return await body.port.submit_child(workflow, params, run_id, claim.run_id, options)
    except Exception as error:
        mark(error, call.key)
        raise
    finally:
        PLACE.reset(place)
