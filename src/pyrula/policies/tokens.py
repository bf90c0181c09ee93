"""Count the tokens of a rate exactly, in whole numbers of any size.

`per_second` becomes a fraction p/q. One token is `U = q * 10**6` units and p units refill in each
microsecond, so nothing is ever rounded but a waiting time, and that upwards. A rate gate owes a *debt* of
units since the time `at` (0: the bucket is full). Only a start writes: refused claims and mere looks leave
no trace, so no fraction is lost and no elapsed time is credited twice.

The numbers pass 2**63 (a burst of 2**33 at q = 10**6): a store keeps them as decimal text.
"""

from fractions import Fraction
from math import isfinite

MICROSECONDS = 10**6
_FINEST = 10**6  # largest denominator that a declared rate is given

Rate = tuple[int, int, int]
"""`(p, q, burst)`: p/q tokens a second, at most `burst` (whole tokens) banked."""


def parse_rate(per_second: float) -> tuple[int, int]:
    """Give `per_second` as a fraction `(p, q)`: 7.3 is 73/10, 0.3333333333333333 is 1/3.

    Raises `ValueError` unless it is a finite number of at least 0.000001.
    """
    rate = (
        Fraction(str(float(per_second))).limit_denominator(_FINEST) if isfinite(per_second) else Fraction(0)
    )
    if rate <= 0:
        raise ValueError(f"per_second must be a finite number of at least 0.000001, not {per_second!r}")
    return rate.numerator, rate.denominator


def convert(debt: int, q: int, to_q: int) -> int:
    """Express a debt counted under denominator `q` under `to_q`, rounded up: it never forgives a unit."""
    return debt if q == to_q else -(-debt * to_q // q)


def owed(debt: int, at: int, q: int, rate: Rate, now: int) -> int:
    """Units owed at `now` (µs), in units of `rate`: the debt decays at the rate of who is asking."""
    p, to_q, _ = rate
    if q != to_q:
        debt = -(-debt * to_q // q)
    if now > at:
        debt -= (now - at) * p
    return debt if debt > 0 else 0


def paid_off(debt: int, at: int, q: int, now: int) -> bool:
    """Tell whether nothing is owed at `now` (µs), whoever asks: even at the slowest rate that may be declared."""
    return debt * _FINEST <= q * (now - at) or debt == 0


def may_start(debt: int, at: int, q: int, rate: Rate, now: int) -> bool:
    """Tell whether a whole token is there at `now` (µs)."""
    return owed(debt, at, q, rate, now) <= (rate[2] - 1) * rate[1] * MICROSECONDS


def take(debt: int, at: int, q: int, rate: Rate, now: int) -> tuple[int, int, int]:
    """Take one token at `now` (µs): the gate's new `(debt, at, q)`. Ask `may_start` first."""
    to_q = rate[1]
    return owed(debt, at, q, rate, now) + to_q * MICROSECONDS, max(at, now), to_q


def next_start(debt: int, at: int, q: int, rate: Rate, now: int) -> int:
    """The first time (µs, at least `now`) a whole token is there: never early, at most 1 µs late."""
    p, to_q, burst = rate
    over = convert(debt, q, to_q) - (burst - 1) * to_q * MICROSECONDS
    return max(now, at - (-over // p))


def available(debt: int, at: int, q: int, rate: Rate, now: int) -> int:
    """Whole tokens in the bucket at `now` (µs), for display: 0 to `burst`."""
    _, to_q, burst = rate
    unit = to_q * MICROSECONDS
    return max(0, (burst * unit - owed(debt, at, q, rate, now)) // unit)
