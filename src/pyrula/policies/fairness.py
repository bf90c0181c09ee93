"""Fairness: whose turn it is among those with waiting work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pyrula.errors import ConfigurationError
from pyrula.policies.check import check_number, refusal
from pyrula.policies.key import Key, check_key, text_of

LEAST_WEIGHT: Final = 0.001
MOST_WEIGHT: Final = 1000.0


@dataclass(frozen=True)
class Fairness:
    """Units of this workflow with waiting work get turns (starts) in proportion to their weight.

    key: what a unit is; a parameter name, a function of the params, or None for the whole workflow. Without a
    Fairness it is the key of the first Limit, else of the first Rate. weight: of every unit, or a mapping
    from key value to weight, 1.0 for the values that it does not name; from 0.001 to 1000. Neither an idle
    nor a blocked unit saves up turns.

    A bad value raises `ConfigurationError` where the workflow is declared, not here.
    """

    key: Key
    weight: float | Mapping[str, float] = 1.0

    def check(self, workflow: str) -> None:
        """Raise `ConfigurationError` unless this can be kept."""
        check_key(workflow, "Fairness.key", self.key)
        if not isinstance(self.weight, Mapping):
            _check_weight(workflow, "Fairness.weight", self.weight)
            return
        seen: set[str] = set()
        for key, weight in self.weight.items():
            _check_weight(workflow, f"Fairness.weight[{key!r}]", weight)
            try:
                text = text_of(key)
            except ValueError:
                raise refusal(workflow, "Fairness.weight", self.weight, "keyed by key values") from None
            if text in seen:
                what = f"two weights for the key value {text!r}"
                raise ConfigurationError(f"workflow {workflow!r}: Fairness.weight has {what}; keep one")
            seen.add(text)

    @property
    def weights(self) -> Mapping[str, float]:
        """Key value to weight, where a unit has one of its own."""
        if not isinstance(self.weight, Mapping):
            return MappingProxyType({})
        return MappingProxyType({text_of(key): float(weight) for key, weight in self.weight.items()})

    @property
    def usual_weight(self) -> float:
        """The weight of the units that have none of their own."""
        return 1.0 if isinstance(self.weight, Mapping) else float(self.weight)


def _check_weight(workflow: str, argument: str, value: object) -> None:
    if not LEAST_WEIGHT <= check_number(workflow, argument, value) <= MOST_WEIGHT:
        raise refusal(workflow, argument, value, f"from {LEAST_WEIGHT} to {MOST_WEIGHT:.0f}")
