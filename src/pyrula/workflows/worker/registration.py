"""What a worker says of itself and of what it serves, when it registers."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable

import msgspec

from pyrula.model.payload import encode
from pyrula.policies.stamp import stamp_run
from pyrula.store.protocol import Registration, Submission
from pyrula.workflows.workflow import Workflow


def registration(
    incarnation: str,
    worker_id: str,
    lease: int,
    workflows: Iterable[Workflow[..., object]],
    max_concurrent_runs: int,
) -> Registration:
    """One life of a worker: its declarations, the code they come from, and the runs of its schedules."""
    served = list(workflows)
    facts = {"host": platform.node(), "process": os.getpid(), "max_concurrent_runs": max_concurrent_runs}
    return Registration(
        incarnation=incarnation,
        worker_id=worker_id,
        lease=lease,
        declarations={workflow.name: msgspec.json.encode(workflow.declaration()) for workflow in served},
        codes={workflow.name: workflow.code for workflow in served},
        schedules={workflow.name: _ticks(workflow) for workflow in served if workflow.schedules},
        facts=msgspec.json.encode(facts),
    )


def _ticks(workflow: Workflow[..., object]) -> list[tuple[bytes, Submission]]:
    ticks = []
    for schedule in workflow.schedules:
        params = dict(schedule.params)
        run = Submission(workflow=workflow.name, params=encode(params), stamped=stamp_run(workflow, params))
        ticks.append((msgspec.json.encode(schedule.declaration()), run))
    return ticks
