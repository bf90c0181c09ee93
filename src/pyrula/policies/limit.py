"""Limit: at most `max` runs of a key executing at once."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from pyrula.policies.check import check_count, check_name, refusal
from pyrula.policies.key import Key, check_key


@dataclass(frozen=True)
class Limit:
    """At most `max` runs per key execute at once; the others stay queued. (Seed: flow-control.)

    key: a parameter name, a function of the params, or None for one bucket. max: 1 or more. shared: draw on
    one gate of this name together with all workflows that name it. name: of the workflow's own gate, in place
    of `<workflow>.limit`. hold: "executing" gives the slot back while the run is parked (sleeps, waits, backs
    off); "run" keeps it from the first start to the end of the run.

    A bad value raises `ConfigurationError` where the workflow is declared, not here.
    """

    key: Key
    max: int
    _: KW_ONLY
    shared: str | None = None
    name: str | None = None
    hold: Literal["executing", "run"] = "executing"

    def check(self, workflow: str) -> None:
        """Raise `ConfigurationError` unless this can be kept."""
        check_key(workflow, "Limit.key", self.key)
        check_count(workflow, "Limit.max", self.max)
        check_gate_name(workflow, "Limit", self.shared, self.name)
        if self.hold not in ("executing", "run"):
            raise refusal(workflow, "Limit.hold", self.hold, '"executing" or "run"')

    @property
    def number(self) -> int:
        """What is stamped on a run."""
        return int(self.max)


def check_gate_name(workflow: str, policy: str, shared: object, name: object) -> None:
    """Raise `ConfigurationError` unless a gate has one name: its default, its own, or a shared one."""
    if shared is not None:
        check_name(workflow, f"{policy}.shared", shared)
    if name is not None:
        check_name(workflow, f"{policy}.name", name)
    if shared is not None and name is not None:
        raise refusal(workflow, f"{policy}.name", name, "left out beside shared=, which is the gate's name")
