"""A limiter's configuration as JSON, for those who read and set it from another process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyrula.errors import ConfigurationError
from pyrula.limiters.config import LimiterConfig, PollRate, microseconds

DISK = "disk:"


def config_to_json(config: LimiterConfig) -> dict[str, Any]:
    """`config` as a JSON object; a disk is written "disk:/mount"."""
    limits = {
        level: {_name(key): limit for key, limit in given.items()} for level, given in config.limits.items()
    }
    rate = config.task_poller_limiter
    seconds = rate and microseconds("PollRate.time_window", rate.time_window) / 1e6
    return {
        "limits": limits,
        "task_poller_limiter": rate and {"limit": rate.limit, "time_window": seconds},
        "limiter_check_frequency": config.limiter_check_frequency,
    }


def changes_from_json(wire: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `Limiter.set_config` that `wire` holds: what it leaves out stays as it is.

    Raises ConfigurationError for another shape than `config_to_json` has; `set_config` checks the values.
    """
    changes = dict(wire)
    unknown = changes.keys() - {"limits", "task_poller_limiter", "limiter_check_frequency"}
    if unknown:
        raise ConfigurationError(
            f"limiter configuration: {sorted(unknown)} is refused; expected limits, task_poller_limiter, "
            "limiter_check_frequency"
        )
    limits = changes.get("limits")
    if isinstance(limits, Mapping) and isinstance(limits.get("os"), Mapping):
        os_limits = {_key(name): limit for name, limit in limits["os"].items()}
        changes["limits"] = {**limits, "os": os_limits}
    rate = changes.get("task_poller_limiter")
    if rate is not None:
        if not isinstance(rate, Mapping) or rate.keys() != {"limit", "time_window"}:
            raise ConfigurationError(
                f"task_poller_limiter: {rate!r} is refused; expected an object of limit and time_window"
            )
        changes["task_poller_limiter"] = PollRate(rate["limit"], rate["time_window"])
    return changes


def _name(key: object) -> str:
    return DISK + key[1] if isinstance(key, tuple) else str(key)


def _key(name: str) -> str | tuple[str, str]:
    return ("disk", name[len(DISK) :]) if name.startswith(DISK) else name
