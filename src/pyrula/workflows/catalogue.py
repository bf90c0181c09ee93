"""How a submission knows its workflow: by its code, or by the declaration that a worker left in the store."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Protocol

from pyrula.errors import ConfigurationError, ConfigurationWarning, InvalidPayload, WorkflowNotFound, shown
from pyrula.model.payload import decode
from pyrula.policies.stamp import (
    Stamped,
    StampedEvent,
    stamp_by_declaration,
    stamp_event,
    stamp_event_by_declaration,
    stamp_run,
)
from pyrula.store.protocol import Store
from pyrula.workflows import prepare
from pyrula.workflows.workflow import Registry, Workflow, default_registry


def name_of(workflow: object) -> str:
    """The name of a workflow, or a name itself. Raises `InvalidPayload` for what is neither."""
    if isinstance(workflow, Workflow):
        return workflow.name
    if not isinstance(workflow, str):
        raise InvalidPayload(f"workflow is {shown(workflow)}; it must be a workflow or the name of one")
    return prepare.text("workflow", workflow)


class Stamper(Protocol):
    """Fixes the policies of a submission."""

    @property
    def name(self) -> str:
        """The workflow's."""

    def stamp(self, params: Mapping[str, Any], priority: int | None) -> Stamped:
        """Check `params` as far as the code is known, and stamp them."""

    @property
    def triggered(self) -> bool:
        """Whether it has a trigger, and thus buffers."""

    def stamp_event(self, event: Mapping[str, Any]) -> StampedEvent:
        """Find the buffer of `event`, and stamp its run."""

    def restamp(self, params: bytes, priority: int) -> Stamped:
        """Stamp a run that is queued already."""


class ByCode:
    """Stamps by a workflow that this process has imported: it checks params and calls key functions."""

    def __init__(self, workflow: Workflow[..., Any]) -> None:
        self._workflow = workflow
        self.name = workflow.name
        self.triggered = workflow.declared.trigger is not None

    def stamp(self, params: Mapping[str, Any], priority: int | None) -> Stamped:
        self._workflow.signature.check(params)
        return stamp_run(self._workflow, params, priority)

    def stamp_event(self, event: Mapping[str, Any]) -> StampedEvent:
        _warn_of_lost_key(self.name, self._workflow.declared.trigger_key, event)
        return stamp_event(self._workflow, event)

    def restamp(self, params: bytes, priority: int) -> Stamped:
        return stamp_run(self._workflow, decode(params), priority)


class ByDeclaration:
    """Stamps by what a worker registered: keys that are parameter names are enough, key functions need the
    code.
    """

    def __init__(self, name: str, declaration: Mapping[str, Any]) -> None:
        self.name = name
        self.triggered = declaration["trigger"] is not None
        self._declaration = declaration

    def stamp(self, params: Mapping[str, Any], priority: int | None) -> Stamped:
        return stamp_by_declaration(self._declaration, params, priority)

    def stamp_event(self, event: Mapping[str, Any]) -> StampedEvent:
        trigger = self._declaration["trigger"] or {}
        _warn_of_lost_key(self.name, trigger.get("key"), event)
        return stamp_event_by_declaration(self._declaration, event)

    def restamp(self, params: bytes, priority: int) -> Stamped:
        return stamp_by_declaration(self._declaration, decode(params), priority)


def _warn_of_lost_key(workflow: str, key: object, event: Mapping[str, Any]) -> None:
    """Once per workflow and process, as Python shows a warning of one place and text."""
    if isinstance(key, str) and key not in event:
        warnings.warn(
            f"workflow {workflow!r}: an event has no {key!r}, the key of its trigger; events without it share one "
            "buffer, and one run, whoever they are of",
            ConfigurationWarning,
            stacklevel=2,
        )


class Catalogue:
    """The workflows of a registry, and behind them those of the store."""

    def __init__(self, store: Store, registry: Registry | None) -> None:
        self._store = store
        self._registry = default_registry if registry is None else registry

    async def find(self, workflow: object) -> Stamper:
        """How to stamp a workflow, or one of that name. Raises `InvalidPayload` and `WorkflowNotFound`."""
        if isinstance(workflow, Workflow):
            return ByCode(workflow)
        name = name_of(workflow)
        known = self._registry.find(name)
        if known is not None:
            return ByCode(known)
        # Read each time: a deploy may have changed it, and the newest decides.
        declaration = await self._store.declaration(name)
        if declaration is None:
            near = get_close_matches(name, await self._names(), 3)
            hint = f"; near are {', '.join(map(repr, near))}" if near else ""
            raise WorkflowNotFound(
                f"no workflow {shown(name)}: this process has imported none of that name and no worker "
                f"has registered one{hint}. Import the module that declares it, or start a worker that does"
            )
        return ByDeclaration(name, decode(declaration))

    async def _names(self) -> set[str]:
        """Every name that could have been meant: of this process, and of the workers'."""
        return {each.name for each in self._registry} | {
            row["workflow"] for row in await self._store.workflows()
        }

    async def check_triggered(self, workflow: object) -> None:
        """Raise `ConfigurationError` for a workflow without a trigger, `WorkflowNotFound` for one that nobody knows."""
        found = await self.find(workflow)
        if not found.triggered:
            raise ConfigurationError(
                f"flush: workflow {found.name!r} has no trigger, and so no buffers; give it trigger=Collect(…) or "
                "Debounce(…), or submit it"
            )
