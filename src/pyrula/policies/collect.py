"""Collect: events of a key become one run, by number or by age of the batch."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from pyrula.model.duration import Duration, to_us
from pyrula.policies.check import check_count, check_duration
from pyrula.policies.key import Key, check_key


class CollectStamp(msgspec.Struct, frozen=True, array_like=True, tag="collect"):
    """A Collect as a buffer keeps it."""

    max_events: int
    window_us: int


@dataclass(frozen=True)
class Collect:
    """Buffer events per key; start one run at `max_events`, or `window_seconds` after the FIRST event of the
    batch.

    key: a field of the event, a function of it, or None for one buffer. max_events: 1 or more.
    window_seconds: seconds or a timedelta, above 0. A batch that would pass 4 MiB fires early. (Seed:
    flow-control.)

    A bad value raises `ConfigurationError` where the workflow is declared, not here.
    """

    key: Key
    max_events: int
    window_seconds: Duration

    def check(self, workflow: str) -> None:
        """Raise `ConfigurationError` unless this can be kept."""
        check_key(workflow, "Collect.key", self.key)
        check_count(workflow, "Collect.max_events", self.max_events)
        check_duration(workflow, "Collect.window_seconds", self.window_seconds)

    @property
    def stamp(self) -> CollectStamp:
        """What a buffer keeps from its first event on."""
        return CollectStamp(int(self.max_events), to_us(self.window_seconds))
