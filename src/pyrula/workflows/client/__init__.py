"""What submits, sees and steers runs: `WorkflowClient`."""

from pyrula.workflows.client.client import WorkflowClient
from pyrula.workflows.client.page import RunPage

__all__ = ["RunPage", "WorkflowClient"]
