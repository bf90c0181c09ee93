"""pyrula's limiters under workers of the official Temporal SDK."""

from pyrula.limiters import LimiterConfig, PollRate
from pyrula.temporal.limiter import WorkerLimiter

__all__ = ["LimiterConfig", "PollRate", "WorkerLimiter"]
