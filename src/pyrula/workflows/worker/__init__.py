"""A worker: takes runs from a store and executes them."""

from pyrula.workflows.worker.worker import Worker, WorkerStats

__all__ = ["Worker", "WorkerStats"]
