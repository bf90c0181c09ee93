"""pyrula's limiters under workers of the official Temporal SDK."""

from pyrula.errors import missing
from pyrula.limiters import LimiterConfig, PollRate

try:
    from pyrula.temporal.limiter import WorkerLimiter
except ModuleNotFoundError as error:
    raise missing("pyrula.temporal", error, "temporal") from None

__all__ = ["LimiterConfig", "PollRate", "WorkerLimiter"]
