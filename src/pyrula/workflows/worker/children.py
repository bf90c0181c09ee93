"""Submits the children of runs: stamped like any submission, under the id that their parent's log knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyrula.errors import InvalidPayload, RunIdConflict, WorkflowNotFound, shown
from pyrula.model.payload import decode
from pyrula.policies.stamp import Stamped, stamp_by_declaration, stamp_run
from pyrula.store.protocol import Store, Submission
from pyrula.workflows import prepare
from pyrula.workflows.workflow import Registry, Workflow

_OPTIONS: Final = frozenset({"priority", "delay", "run_at", "expires_in"})


async def submit_child(
    store: Store,
    registry: Registry,
    workflow: object,
    params: Mapping[str, Any] | None,
    run_id: str,
    parent: str,
    options: Mapping[str, Any],
) -> str:
    """Store a run as a child of `parent`; its id. Raises what a client's submit raises, with nothing
    stored."""
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise TypeError(
            f"run_child takes no {', '.join(unknown)}; it takes run_id, {', '.join(sorted(_OPTIONS))}"
        )
    given = prepare.json_object(params, "params")
    data = prepare.encoded(given, "params")
    when = prepare.options(options.get("delay"), options.get("run_at"), options.get("expires_in"))
    name, stamped = await _stamped(store, registry, workflow, given, options.get("priority"))
    made = Submission(
        workflow=name,
        params=data,
        stamped=stamped,
        run_id=run_id,
        delay=when.delay,
        run_at=when.run_at,
        expires_in=when.expires_in,
        parent=parent,
    )
    (answer,) = await store.submit([made])
    if answer.conflict:
        raise RunIdConflict(f"run id {run_id!r} is taken by a run with other params or of another workflow")
    return answer.run_id


async def _stamped(
    store: Store, registry: Registry, workflow: object, params: dict[str, Any], priority: int | None
) -> tuple[str, Stamped]:
    """By the code if it is here, else by what a worker registered."""
    found = workflow if isinstance(workflow, Workflow) else None
    if found is None:
        if not isinstance(workflow, str):
            raise InvalidPayload(
                f"child: workflow is {shown(workflow)}; it must be a workflow or the name of one"
            )
        found = registry.find(workflow)
    if found is not None:
        found.signature.check(params)
        return found.name, stamp_run(found, params, priority)
    name = str(workflow)
    declaration = await store.declaration(name)
    if declaration is None:
        raise WorkflowNotFound(
            f"no workflow {shown(name)}: this worker has imported none of that name, and none was registered"
        )
    return name, stamp_by_declaration(decode(declaration), params, priority)
