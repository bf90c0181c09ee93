"""What a call takes for a workflow: itself, whose answer a type checker knows then, or its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyrula.workflows.workflow import Workflow

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # `default` is in `typing` from Python 3.13 on

    A = TypeVar("A", default=Any)
else:
    from typing import TypeVar

    A = TypeVar("A")

Named = Workflow[..., A] | str
"""A workflow that answers A, or the name of one that this process need not have imported."""
