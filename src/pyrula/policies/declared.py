"""What a workflow declares for flow control, checked, with every gate named; and the same as JSON and back.

The JSON form is what a store remembers, so that a client which has not imported a workflow can submit it:
everything but key functions survives the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar

from pyrula.errors import ConfigurationError, shown
from pyrula.model.duration import Duration
from pyrula.policies.check import check_duration, refusal
from pyrula.policies.collect import Collect, CollectStamp
from pyrula.policies.debounce import Debounce, DebounceStamp
from pyrula.policies.fairness import Fairness
from pyrula.policies.key import Key, KeyElsewhere, name_of
from pyrula.policies.limit import Limit
from pyrula.policies.rate import Rate
from pyrula.policies.retry import NO_RETRY, Retry, RetryStamp

_Policy = TypeVar("_Policy")
LOWEST_PRIORITY, HIGHEST_PRIORITY, USUAL_PRIORITY = 5, 1, 3


class DeclaredGate(NamedTuple):
    """One Limit or Rate under its gate's name. number: max of a limit; (p, q, burst) of a rate, p/q per
    second."""

    name: str
    kind: Literal["limit", "rate"]
    number: int | tuple[int, int, int]
    hold: Literal["executing", "run"]
    key: Key | KeyElsewhere
    shared: bool


class Routing(NamedTuple):
    """What decides the shard of a workflow's runs. value: the shared gate's or the workflow's name."""

    by: Literal["run", "key", "shared", "workflow"]
    value: str = ""


@dataclass(frozen=True, eq=False)
class Declared:
    """The flow control of one workflow. gates: limits first, in the order of their names."""

    workflow: str
    gates: tuple[DeclaredGate, ...] = ()
    unit_key: Key | KeyElsewhere = None
    usual_weight: float = 1.0
    weights: Mapping[str, float] = field(default_factory=dict)
    priority: int = USUAL_PRIORITY
    retry: RetryStamp = NO_RETRY
    timeout_us: int | None = None
    trigger: CollectStamp | DebounceStamp | None = None
    trigger_key: Key | KeyElsewhere = None

    @cached_property
    def routing(self) -> Routing:
        """By the key's value if all gates use one key; else by the shared name, else by the workflow.

        Runs that share a key of a gate so land on one shard, which is what keeps its counter exact. (Seed:
        "Keys".)
        """
        if not self.gates:
            return Routing("run")
        first = self.gates[0].key
        if first is not None and all(_same_key(gate.key, first) for gate in self.gates):
            return Routing("key")
        shared = self.shared
        return Routing("shared", shared[0]) if shared else Routing("workflow", self.workflow)

    @cached_property
    def keys(self) -> tuple[tuple[Key | KeyElsewhere, ...], tuple[int, ...]]:
        """The keys of its gates and of its unit, each once, and which of them each gate has, and last the unit."""
        keys: list[Key | KeyElsewhere] = []
        places = []
        for key in (*(gate.key for gate in self.gates), self.unit_key):
            known = [at for at, other in enumerate(keys) if _same_key(key, other)]
            places.append(known[0] if known else len(keys))
            if not known:
                keys.append(key)
        return tuple(keys), tuple(places)

    @property
    def shared(self) -> tuple[str, ...]:
        """Names of the shared gates, sorted, each once."""
        return tuple(sorted({gate.name for gate in self.gates if gate.shared}))


def declare(
    workflow: str,
    *,
    concurrency: object = None,
    rate_limit: object = None,
    trigger: object = None,
    fairness: object = None,
    priority: object = USUAL_PRIORITY,
    retry: object = None,
    timeout: Duration | None = None,
) -> Declared:
    """The checked flow control of a workflow. Raises `ConfigurationError` for whatever can't be kept."""
    limits = several(workflow, "concurrency", concurrency, Limit)
    rates = several(workflow, "rate_limit", rate_limit, Rate)
    if trigger is not None and not isinstance(trigger, (Collect, Debounce)):
        raise refusal(workflow, "trigger", trigger, "a Collect or a Debounce")
    if fairness is not None and not isinstance(fairness, Fairness):
        raise refusal(workflow, "fairness", fairness, "a Fairness")
    if retry is not None and not isinstance(retry, Retry):
        raise refusal(workflow, "retry", retry, "a Retry")
    for policy in (*limits, *rates, trigger, fairness, retry):
        if policy is not None:
            policy.check(workflow)
    gates = [*_gates(workflow, "limit", limits), *_gates(workflow, "rate", rates)]
    _check_apart(workflow, limits, rates, gates)
    keyed: list[Fairness | Limit | Rate] = [*([fairness] if fairness else []), *limits, *rates]
    return Declared(
        workflow,
        tuple(sorted(gates, key=lambda gate: (gate.kind, gate.name))),
        keyed[0].key if keyed else None,
        fairness.usual_weight if fairness else 1.0,
        fairness.weights if fairness else {},
        check_priority(workflow, priority),
        retry.stamp if retry else NO_RETRY,
        None if timeout is None else check_duration(workflow, "timeout", timeout),
        trigger.stamp if trigger else None,
        trigger.key if trigger else None,
    )


def several(workflow: str, argument: str, value: object, kind: type[_Policy]) -> tuple[_Policy, ...]:
    """One policy, or a sequence of them, as a tuple. Raises `ConfigurationError` for anything else."""
    items = tuple(value) if isinstance(value, (list, tuple)) else () if value is None else (value,)
    for item in items:
        if not isinstance(item, kind):
            raise refusal(workflow, argument, item, f"a {kind.__name__}, or a sequence of them")
    return items


def check_priority(workflow: str, priority: object) -> int:
    """`priority`, if it is an int from 1 (first) to 5 (last). Raises `ConfigurationError`."""
    if (
        isinstance(priority, bool)
        or not isinstance(priority, int)
        or not HIGHEST_PRIORITY <= priority <= LOWEST_PRIORITY
    ):
        raise refusal(workflow, "priority", priority, "an int from 1 (first) to 5 (last)")
    return int(priority)  # plain: the text of an enum's member would name another lane


def _gates(
    workflow: str, kind: Literal["limit", "rate"], policies: Sequence[Limit | Rate]
) -> list[DeclaredGate]:
    gates, unnamed = [], 0
    for policy in policies:
        name = policy.shared or policy.name
        if name is None:
            unnamed += 1
            name = f"{workflow}.{kind}{unnamed if unnamed > 1 else ''}"
        hold = policy.hold if isinstance(policy, Limit) else "executing"
        gates.append(DeclaredGate(name, kind, policy.number, hold, policy.key, policy.shared is not None))
    return gates


def _check_apart(
    workflow: str, limits: Sequence[Limit], rates: Sequence[Rate], gates: Sequence[DeclaredGate]
) -> None:
    """Refuse one gate declared twice: a run would wait for the slot that it holds itself, or pay double."""
    names = [(gate.kind, gate.name) for gate in gates]
    for kind, name in names:
        if names.count((kind, name)) > 1:
            raise ConfigurationError(
                f"workflow {workflow!r}: gate {name!r} is declared by two {kind}s; "
                "keep one, or give each a name= of its own"
            )
    for i, one in enumerate(limits):
        for other in limits[i + 1 :]:
            if _same_key(one.key, other.key) and (one.shared, one.hold) == (other.shared, other.hold):
                raise ConfigurationError(
                    f"workflow {workflow!r}: two Limits on key {shown_key(one.key)}, max {one.max} and "
                    f"{other.max}: the lower decides; keep that one"
                )
    for i, rate in enumerate(rates):
        for later in rates[i + 1 :]:
            if _same_key(rate.key, later.key) and (rate.shared, rate.number) == (later.shared, later.number):
                raise ConfigurationError(
                    f"workflow {workflow!r}: two equal Rates on key {shown_key(rate.key)}; keep one"
                )


def _same_key(one: Key | KeyElsewhere, other: Key | KeyElsewhere) -> bool:
    return one is other or (isinstance(one, (str, KeyElsewhere)) and one == other)


def shown_key(key: Key | KeyElsewhere) -> str:
    """A key as messages show it."""
    if isinstance(key, KeyElsewhere):
        return key.function
    return name_of(key) if callable(key) else shown(key)


# -- as JSON


def to_json(declared: Declared) -> dict[str, Any]:
    """`declared` as a JSON object; a key function is written by its name."""
    return {
        "workflow": declared.workflow,
        "gates": [
            {
                "name": gate.name,
                "kind": gate.kind,
                "number": list(gate.number) if isinstance(gate.number, tuple) else gate.number,
                "hold": gate.hold,
                "key": _key_json(gate.key),
                "shared": gate.shared,
            }
            for gate in declared.gates
        ],
        "unit_key": _key_json(declared.unit_key),
        "weight": declared.usual_weight,
        "weights": dict(declared.weights),
        "priority": declared.priority,
        "retry": {name: getattr(declared.retry, name) for name in RetryStamp.__struct_fields__},
        "timeout_us": declared.timeout_us,
        "trigger": _trigger_json(declared.trigger, declared.trigger_key),
    }


def from_json(declaration: Mapping[str, Any]) -> Declared:
    """The flow control of a declaration that `to_json` wrote; key functions become `KeyElsewhere`."""
    trigger = declaration["trigger"]
    return Declared(
        declaration["workflow"],
        tuple(
            DeclaredGate(
                gate["name"],
                gate["kind"],
                tuple(gate["number"]) if isinstance(gate["number"], list) else gate["number"],
                gate["hold"],
                _key_from(gate["key"]),
                gate["shared"],
            )
            for gate in declaration["gates"]
        ),
        _key_from(declaration["unit_key"]),
        declaration["weight"],
        declaration["weights"],
        declaration["priority"],
        RetryStamp(**declaration["retry"]),
        declaration["timeout_us"],
        _trigger_from(trigger),
        _key_from(trigger["key"]) if trigger else None,
    )


def _key_json(key: Key | KeyElsewhere) -> Any:
    if isinstance(key, KeyElsewhere):
        return {"function": key.function}
    return {"function": name_of(key)} if callable(key) else key


def _key_from(key: Any) -> Key | KeyElsewhere:
    return KeyElsewhere(key["function"]) if isinstance(key, Mapping) else key


def _trigger_json(
    trigger: CollectStamp | DebounceStamp | None, key: Key | KeyElsewhere
) -> dict[str, Any] | None:
    if trigger is None:
        return None
    numbers = {name: getattr(trigger, name) for name in trigger.__struct_fields__}
    return {"kind": trigger.__struct_config__.tag, "key": _key_json(key), **numbers}


def _trigger_from(trigger: Mapping[str, Any] | None) -> CollectStamp | DebounceStamp | None:
    if trigger is None:
        return None
    if trigger["kind"] == "collect":
        return CollectStamp(trigger["max_events"], trigger["window_us"])
    return DebounceStamp(trigger["window_us"], trigger["max_wait_us"])
