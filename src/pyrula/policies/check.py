"""What declarations are checked with: each refusal names the workflow, the argument and the value."""

from __future__ import annotations

from math import isfinite

from pyrula.errors import ConfigurationError, shown
from pyrula.model.duration import positive_us

MAX_COUNT = (1 << 63) - 1
"""The largest count a store's integer holds."""
_LONGEST_NAME = 200


def refusal(workflow: str, argument: str, value: object, must: str) -> ConfigurationError:
    """The error for a bad argument. argument: as written, such as `Limit.max`; must: what it must be."""
    return ConfigurationError(f"workflow {shown(workflow)}: {argument} is {shown(value)}; it must be {must}")


def check_count(workflow: str, argument: str, value: object, most: int = MAX_COUNT) -> int:
    """`value`, if it is an int from 1 to `most` (bool is not an int here). Raises ConfigurationError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise refusal(workflow, argument, value, "an int of at least 1")
    if value > most:
        raise refusal(workflow, argument, value, f"at most {most}")
    return value


def check_number(workflow: str, argument: str, value: object) -> float:
    """`value`, if it is a finite int or float. Raises ConfigurationError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refusal(workflow, argument, value, "a number (int or float)")
    try:
        finite = isfinite(value)
    except OverflowError:  # an int beyond any float
        finite = False
    if not finite:
        raise refusal(workflow, argument, value, "finite")
    return value


def check_duration(workflow: str, argument: str, value: object) -> int:
    """`value` as µs, if it is a positive duration. Raises ConfigurationError."""
    try:
        return positive_us(value)
    except ValueError as error:
        raise refusal(workflow, argument, value, str(error)) from None


def check_name(workflow: str, argument: str, value: object) -> None:
    """Raise ConfigurationError unless `value` is a name: printable text that people can read, type and
    store."""
    if not isinstance(value, str) or not value.strip():
        raise refusal(workflow, argument, value, "a non-empty str")
    if (
        value != value.strip()
        or not value.isprintable()
        or len(value.encode(errors="replace")) > _LONGEST_NAME
    ):
        must = f"printable, without spaces at its ends, and at most {_LONGEST_NAME} bytes of UTF-8"
        raise refusal(workflow, argument, value, must)
