"""Numbers that an operator sets, checked as a declaration's would be."""

from __future__ import annotations

from typing import Any, Final, get_args

from pyrula.errors import ConfigurationError, shown
from pyrula.model.run import RunState
from pyrula.policies.limit import Limit
from pyrula.policies.rate import Rate

_STATES: Final = get_args(RunState)
_LONGEST_PAGE: Final = 1000


def limit_number(gate: str, max: int) -> int:
    """The number of an override of a Limit. Raises `ConfigurationError`."""
    if max == 0 and not isinstance(max, bool):
        raise ConfigurationError(
            f"gate {gate!r}: max is 0; it must be at least 1: to start nothing, pause the gate"
        )
    policy = Limit(None, max)
    _check(gate, policy)
    return policy.number


def rate_number(gate: str, per_second: float, burst: int | None) -> tuple[int, int, int]:
    """The number of an override of a Rate: (p, q, burst), p/q per second. Raises `ConfigurationError`."""
    policy = Rate(None, per_second, burst)
    _check(gate, policy)
    return policy.number


def _check(gate: str, policy: Limit | Rate) -> None:
    try:
        policy.check(gate)
    except ConfigurationError as error:
        raise ConfigurationError(f"gate {gate!r}: override of {str(error).partition(': ')[2]}") from None


def check_listing(state: str | None, limit: Any) -> None:
    """Raise ValueError unless `state` is one of a run's, and `limit` a page's length."""
    if state is not None and state not in _STATES:
        raise ValueError(f"runs: state is {shown(state)}; it must be one of {', '.join(_STATES)}")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _LONGEST_PAGE:
        raise ValueError(f"runs: limit is {shown(limit)}; it must be an int from 1 to {_LONGEST_PAGE}")
