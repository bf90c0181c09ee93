"""Numbers that an operator sets, checked as a declaration's would be."""

from __future__ import annotations

import re
from typing import Final, get_args

from pyrula.errors import ConfigurationError, InvalidPayload, shown
from pyrula.model.run import RunState
from pyrula.policies.limit import Limit
from pyrula.policies.rate import Rate
from pyrula.workflows import prepare

_STATES: Final = get_args(RunState)
_LONGEST_PAGE: Final = 1000
_CURSOR: Final = re.compile(r"[0-9]{0,18}(\.[0-9]{0,18})*", re.ASCII)
"""A run's number on each shard, as a page gives them."""


def limit_number(gate: str, max: int) -> int:
    """The number of an override of a Limit. Raises `ConfigurationError`."""
    if type(max) is int and max == 0:
        raise ConfigurationError(
            f"gate {shown(gate)}: max is 0; it must be at least 1: to start nothing, pause the gate"
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
        raise ConfigurationError(f"gate {shown(gate)}: override of {str(error).partition(': ')[2]}") from None


def check_listing(state: object, limit: object, cursor: object = None) -> None:
    """Raise `InvalidPayload` unless `state` is one of a run's, `limit` a page's length and `cursor` a page's."""
    if state is not None and (not isinstance(state, str) or state not in _STATES):
        raise InvalidPayload(f"runs: state is {shown(state)}; it must be one of {', '.join(_STATES)}")
    prepare.page_length("runs: limit", limit, _LONGEST_PAGE)
    if cursor is not None and not (isinstance(cursor, str) and _CURSOR.fullmatch(cursor)):
        raise InvalidPayload(f"runs: cursor is {shown(cursor)}; take it from the page before")
