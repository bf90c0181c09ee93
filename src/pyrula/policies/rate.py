"""Rate: a token bucket per key."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from math import ceil

from pyrula.policies.check import check_count, check_number, refusal
from pyrula.policies.key import Key, check_key
from pyrula.policies.limit import check_gate_name
from pyrula.policies.tokens import parse_rate

_FASTEST = 1_000_000_000


@dataclass(frozen=True)
class Rate:
    """Each key starts at most `per_second` runs a second, in bursts of up to `burst`. (Seed: flow-control.)

    A token bucket, full at first use: in any span of T seconds at most burst + per_second * T runs start, so
    a span that begins with a full bucket sees more than per_second * T. key: as for `Limit`. per_second:
    above 0, fractions welcome (1/60 is one a minute), down to one in 10^6 s. burst: 1 or more; default
    ceil(per_second). shared, name: as for `Limit`.

    A bad value raises `ConfigurationError` where the workflow is declared, not here.
    """

    key: Key
    per_second: float
    burst: int | None = None
    _: KW_ONLY
    shared: str | None = None
    name: str | None = None

    def check(self, workflow: str) -> None:
        """Raise `ConfigurationError` unless this can be kept."""
        check_key(workflow, "Rate.key", self.key)
        rate = check_number(workflow, "Rate.per_second", self.per_second)
        if rate <= 0:
            raise refusal(
                workflow, "Rate.per_second", rate, "above 0 (to stop starts for a time, pause the gate)"
            )
        if rate > _FASTEST:
            raise refusal(
                workflow, "Rate.per_second", rate, f"at most {_FASTEST}; leave the rate out for no limit"
            )
        try:
            parse_rate(rate)
        except ValueError:
            must = "at least 0.000001, one start in about 12 days"
            raise refusal(workflow, "Rate.per_second", rate, must) from None
        if self.burst is not None:
            check_count(workflow, "Rate.burst", self.burst)
        check_gate_name(workflow, "Rate", self.shared, self.name)

    @property
    def number(self) -> tuple[int, int, int]:
        """What is stamped on a run: p, q and burst, where p/q is per_second."""
        p, q = parse_rate(self.per_second)
        return p, q, ceil(self.per_second) if self.burst is None else int(self.burst)
