"""What the runs of a test wait for, where the test waited in vain."""

from __future__ import annotations

from pyrula.errors import shown
from pyrula.workflows.client import WorkflowClient

_MOST = 3
"""Runs of each state that are told of, the newest."""


async def waiting_for(client: WorkflowClient) -> str:
    """Which runs are not over, and why not, each after a semicolon; nothing if all are."""
    found = []
    for state in ("executing", "queued", "parked"):
        for run in await client.runs(state=state, limit=_MOST):
            why = (await client.why(run.run_id))["text"]
            found.append(f"; run {shown(run.run_id)} of {shown(run.workflow)}: {why.rstrip('.')}")
    return "".join(found)
