"""A body under way: its context, the replay of its log, and what becomes of it."""

from pyrula.workflows.body.body import Body
from pyrula.workflows.body.context import Context
from pyrula.workflows.body.factory import branching
from pyrula.workflows.body.port import Port

__all__ = ["Body", "Context", "Port", "branching"]
