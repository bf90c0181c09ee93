"""A limiter's configuration as JSON, for those who read and set it from another process; and what a worker says
of its limits in its row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyrula.errors import ConfigurationError
from pyrula.limiters.config import (
    DEFAULT_CHECK_FREQUENCY,
    SERVED,
    LimiterConfig,
    PollRate,
    microseconds,
    parse_limits,
    poll_rate,
)
from pyrula.limiters.levels import LimitedBy
from pyrula.limiters.stats import Figure

DISK = "disk:"


def config_to_json(config: LimiterConfig) -> dict[str, Any]:
    """`config` as a JSON object; a disk is written "disk:/mount"."""
    return {
        "limits": _limits(config.limits),
        "task_poller_limiter": _rate(config.task_poller_limiter),
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


def changes_to_json(changes: Mapping[str, Any], kinds: tuple[str, ...] = SERVED) -> dict[str, Any]:
    """Arguments of `Limiter.set_config` as a JSON object, checked as the worker will check them.

    Raises ConfigurationError for what a worker that serves `kinds` could not take up; only whether a mount exists
    is known to its machine alone.
    """
    checked: dict[str, Any] = {}
    if "limits" in changes:
        checked["limits"] = _limits(parse_limits(changes["limits"], kinds).shape())
    if "task_poller_limiter" in changes:
        checked["task_poller_limiter"] = _rate(poll_rate(changes["task_poller_limiter"]))
    if "limiter_check_frequency" in changes:
        given = changes["limiter_check_frequency"]
        checked["limiter_check_frequency"] = microseconds("limiter_check_frequency", given) / 1e6
    return checked


def config_from_json(wire: Mapping[str, Any]) -> LimiterConfig:
    """What `config_to_json` was made of; what is left out is as a worker has it that was given nothing.

    Raises ConfigurationError for another shape, or values that no worker can have.
    """
    given = changes_from_json(wire)
    return LimiterConfig(
        parse_limits(given.get("limits"), SERVED).shape(),
        poll_rate(given.get("task_poller_limiter")),
        given.get("limiter_check_frequency", DEFAULT_CHECK_FREQUENCY),
    )


def reason_to_json(reason: LimitedBy) -> dict[str, Any]:
    """Why a worker is held back, for its row; `text` says it in words."""
    return {
        "level": reason.level,
        "limitable": _name(reason.limitable),
        "measure": reason.measure,
        "value": reason.value,
        "limit": reason.limit,
        "text": reason_text(reason),
    }


def reason_text(reason: LimitedBy) -> str:
    """Why a worker is held back, in words that stay true for a while: a poller's next poll is told as its pace."""
    if reason.measure == "poll":
        return f"poller of {_name(reason.limitable)}: one poll in {reason.limit / 1e6:g} s"
    return str(reason)


def figure_to_json(figure: Figure) -> dict[str, Any]:
    """One limit and what it is held against, for the worker's row."""
    wire: dict[str, Any] = {
        "level": figure.level,
        "limitable": _name(figure.limitable),
        "in_use": figure.running,
        "max": figure.most,
    }
    if figure.ends_at is not None:
        wire |= {"in_window": figure.count, "max_per_window": figure.often}
    return wire


def _limits(limits: Mapping[str, Mapping[Any, Any]]) -> dict[str, dict[str, Any]]:
    return {level: {_name(key): limit for key, limit in given.items()} for level, given in limits.items()}


def _rate(rate: PollRate | None) -> dict[str, Any] | None:
    if rate is None:
        return None
    seconds = microseconds("PollRate.time_window", rate.time_window) / 1e6
    return {"limit": rate.limit, "time_window": seconds}


def _name(key: object) -> str:
    return DISK + key[1] if isinstance(key, tuple) else str(key)


def _key(name: str) -> str | tuple[str, str]:
    return ("disk", name[len(DISK) :]) if name.startswith(DISK) else name
