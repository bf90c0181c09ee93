"""Debounce: events of a key become one run once they have been quiet."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import msgspec

from pyrula.model.duration import Duration, to_us
from pyrula.policies.check import check_duration, refusal
from pyrula.policies.key import Key, check_key


class DebounceStamp(msgspec.Struct, frozen=True, array_like=True, tag="debounce"):
    """A Debounce as a buffer keeps it."""

    window_us: int
    max_wait_us: int | None = None


@dataclass(frozen=True)
class Debounce:
    """Buffer events per key; start one run once they have been quiet for `window_seconds`. (Seed:
    flow-control.)

    key: a field of the event, a function of it, or None for one buffer. window_seconds: seconds or a
    timedelta, above 0. max_wait_seconds: fire at the latest this long after the first event; longer than the
    window. The default is no cap: a stream that never falls quiet then never fires.

    A bad value raises `ConfigurationError` where the workflow is declared, not here.
    """

    key: Key
    window_seconds: Duration
    _: KW_ONLY
    max_wait_seconds: Duration | None = None

    def check(self, workflow: str) -> None:
        """Raise `ConfigurationError` unless this can be kept."""
        check_key(workflow, "Debounce.key", self.key)
        window = check_duration(workflow, "Debounce.window_seconds", self.window_seconds)
        if self.max_wait_seconds is None:
            return
        argument = "Debounce.max_wait_seconds"
        if check_duration(workflow, argument, self.max_wait_seconds) <= window:
            must = f"longer than window_seconds ({shown_seconds(window)}), or it would decide every time"
            raise refusal(workflow, argument, self.max_wait_seconds, must)

    @property
    def stamp(self) -> DebounceStamp:
        """What a buffer keeps from its first event on."""
        cap = None if self.max_wait_seconds is None else to_us(self.max_wait_seconds)
        return DebounceStamp(to_us(self.window_seconds), cap)


def shown_seconds(us: int) -> str:
    """A duration as messages show it: `5 s`, `0.25 s`."""
    return f"{us / 1_000_000:.6f}".rstrip("0").rstrip(".") + " s"
