"""Retry: how often a failed attempt is made again, and how long it backs off before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from pyrula.model.duration import Duration, to_us
from pyrula.policies.check import check_count, check_duration, check_number, refusal

MAX_ATTEMPTS: Final = 1_000_000
USUAL_MAX_US: Final = 3_600_000_000


class RetryStamp(msgspec.Struct, frozen=True, array_like=True):
    """A Retry as it is stamped on a run. max_attempts: 0 = no end. The default is one attempt: no retry."""

    max_attempts: int = 1
    initial_us: int = 1_000_000
    factor: float = 2.0
    max_us: int = USUAL_MAX_US
    jitter: float = 0.2

    def allows(self, attempt: int) -> bool:
        """Whether another attempt follows the failure of this one (1, 2, …)."""
        return self.max_attempts == 0 or attempt < self.max_attempts

    def delay_us(self, attempt: int, chance: float) -> int:
        """µs to back off after the failure of this attempt (1, 2, …). chance: from 0 up to 1; never above
        `max_us`."""
        try:
            delay = self.initial_us * self.factor ** (attempt - 1)
        except OverflowError:
            delay = float(self.max_us)
        return max(1, round(min(delay, float(self.max_us)) * (1.0 - self.jitter * chance)))


NO_RETRY: Final = RetryStamp()


@dataclass(frozen=True)
class Retry:
    """Make a failed attempt again, after a back-off that grows by `factor`.

    max_attempts: attempts in all, the first included; None = no end. initial_seconds, max_seconds: the first
    and the longest back-off; seconds or a timedelta (default: an hour, or initial_seconds if longer). factor:
    1 or more. jitter: from 0 to 1, the part of each back-off that chance may cut off, so that runs which
    failed together do not come back together; 1.0 is "full jitter".

    Defaults: 5 attempts after 1, 2, 4 and 8 s, each up to a fifth shorter, never more than an hour. A
    workflow without `retry=` gets one attempt: its steps retry where that is safe. (Temporal, DBOS: workflows
    are not retried unless asked; 1 s and factor 2 are Temporal's; jitter that only shortens keeps max_seconds
    a promise.)

    A bad value raises `ConfigurationError` where the workflow is declared, not here.
    """

    max_attempts: int | None = 5
    initial_seconds: Duration = 1.0
    factor: float = 2.0
    max_seconds: Duration | None = None
    jitter: float = 0.2

    def check(self, workflow: str) -> None:
        """Raise `ConfigurationError` unless this can be kept."""
        if self.max_attempts is not None:
            check_count(workflow, "Retry.max_attempts", self.max_attempts, MAX_ATTEMPTS)
        initial = check_duration(workflow, "Retry.initial_seconds", self.initial_seconds)
        if not 1 <= check_number(workflow, "Retry.factor", self.factor) <= 1000:
            raise refusal(workflow, "Retry.factor", self.factor, "from 1 to 1000")
        longest = self.max_seconds
        if longest is not None and check_duration(workflow, "Retry.max_seconds", longest) < initial:
            raise refusal(workflow, "Retry.max_seconds", longest, "at least initial_seconds")
        if not 0 <= check_number(workflow, "Retry.jitter", self.jitter) <= 1:
            raise refusal(workflow, "Retry.jitter", self.jitter, "from 0 to 1")

    @property
    def stamp(self) -> RetryStamp:
        """What is stamped on a run."""
        initial = to_us(self.initial_seconds)
        return RetryStamp(
            0 if self.max_attempts is None else int(self.max_attempts),
            initial,
            float(self.factor),
            max(initial, USUAL_MAX_US) if self.max_seconds is None else to_us(self.max_seconds),
            float(self.jitter),
        )

    def delay_us(self, attempt: int, chance: float) -> int:
        """µs to back off after the failure of this attempt (1, 2, …). chance: from 0 up to 1."""
        return self.stamp.delay_us(attempt, chance)
