"""Submits the children of runs: stamped like any submission, under the id that their parent's log knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyrula.errors import RunIdConflict
from pyrula.store.protocol import Store
from pyrula.workflows import prepare
from pyrula.workflows.catalogue import Catalogue

_OPTIONS: Final = frozenset({"priority", "delay", "run_at", "expires_in"})


async def submit_child(
    store: Store,
    catalogue: Catalogue,
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
    stamper = await catalogue.find(workflow)
    stamped = stamper.stamp(given, options.get("priority"))
    (answer,) = await store.submit([prepare.submission(stamper.name, data, stamped, when, run_id, parent)])
    if answer.conflict:
        raise RunIdConflict(f"run id {run_id!r} is taken by a run with other params or of another workflow")
    return answer.run_id
