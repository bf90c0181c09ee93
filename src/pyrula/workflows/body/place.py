"""Where code runs: in a body, inside one of its steps, or in neither. A context variable, so threads know it
too."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyrula.workflows.body.body import Body


@dataclass(frozen=True, slots=True)
class Inside:
    """Inside a step: tasks started here are the step's own affair and no branches of the body."""

    body: Body
    step: str
    step_id: str


PLACE: ContextVar[Body | Inside | None] = ContextVar("pyrula_place", default=None)


class BodyClosed(asyncio.CancelledError):
    """A context was asked for something after its run had parked, was cancelled or ended: nothing can be done
    any more.

    It is a CancelledError, so `except Exception` lets it pass and the asking task counts as cancelled.
    """
