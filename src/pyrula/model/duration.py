"""Durations: seconds or `timedelta` for people, integer microseconds inside."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from math import isfinite
from typing import Final

Duration = float | timedelta
"""Seconds (int or float), or a timedelta."""

SECOND: Final = 1_000_000
"""µs in a second, for what decides and may not see a clock."""

LONGEST: Final = 100 * 366 * 86_400 * SECOND
"""µs of the longest duration accepted: a hundred years. It keeps every instant inside 63 bits."""

_MICROSECOND = timedelta(microseconds=1)


def to_us(value: object) -> int:
    """A duration as integer µs, to the nearest. Raises ValueError, saying what it must be, for anything
    else."""
    if isinstance(value, timedelta):
        us = value // _MICROSECOND
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("seconds (int or float) or a timedelta")
    elif isinstance(value, float) and not isfinite(value):
        raise ValueError("a finite number of seconds")
    elif abs(value) > LONGEST:  # before str(): an int may have more digits than Python will write out
        us = LONGEST + 1 if value > 0 else -LONGEST - 1
    else:
        us = round(Fraction(str(float(value) if isinstance(value, float) else int(value))) * SECOND)
    if abs(us) > LONGEST:
        raise ValueError("at most a hundred years")
    return us


def at_least_0_us(value: object) -> int:
    """A duration as integer µs, 0 or more. Raises ValueError, saying what it must be, for anything else."""
    us = to_us(value)
    if us < 0:
        raise ValueError("0 or more")
    return us


def positive_us(value: object) -> int:
    """A duration as integer µs, at least 1. Raises ValueError, saying what it must be, for anything else."""
    us = to_us(value)
    if us < 1:
        raise ValueError("longer than 0 s (and at least 0.000001 s)")
    return us
