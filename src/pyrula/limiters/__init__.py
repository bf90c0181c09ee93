"""Worker-side limiters: what a worker checks before it asks for more.

The machine (memory, load, disks), concurrency and fixed windows at node, cluster and worker level, and a
leaky bucket per poller; alone or together, for pyrula's own workers and for Temporal's.
"""

from pyrula.limiters.config import LEVELS, LIMITABLES, LimiterConfig, PollRate
from pyrula.limiters.events import Event, TaskCounter, WaitStarted, WaitStopped
from pyrula.limiters.hub import Hub, hub
from pyrula.limiters.levels import LimitedBy, Room
from pyrula.limiters.stats import Stats
from pyrula.limiters.worker import Limiter

node = hub.node
"""The node level of this process."""

cluster = hub.cluster
"""The cluster level of a name, in this process."""

__all__ = [
    "LEVELS",
    "LIMITABLES",
    "Event",
    "Hub",
    "LimitedBy",
    "Limiter",
    "LimiterConfig",
    "PollRate",
    "Room",
    "Stats",
    "TaskCounter",
    "WaitStarted",
    "WaitStopped",
    "cluster",
    "hub",
    "node",
]
