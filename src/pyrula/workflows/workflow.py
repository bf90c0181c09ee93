"""@workflow: a body and its flow control, declared once, and the registry that knows it by name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

from pyrula.errors import (
    ConfigurationError,
    InvalidParams,
    WorkflowNotFound,
    expect,
    shown,
)
from pyrula.kafka.stream import KafkaStream
from pyrula.model.duration import Duration
from pyrula.policies.check import refusal
from pyrula.policies.collect import Collect
from pyrula.policies.debounce import Debounce
from pyrula.policies.declared import Declared, DeclaredGate, declare, several, to_json
from pyrula.policies.fairness import Fairness
from pyrula.policies.limit import Limit
from pyrula.policies.rate import Rate
from pyrula.policies.retry import Retry
from pyrula.policies.schedule import Cron, Every
from pyrula.workflows.code import code_digest
from pyrula.workflows.params import Signature, warn

P = ParamSpec("P")
R = TypeVar("R")

ROUTES: Final = frozenset(
    {"runs", "gates", "workers", "workflows", "buffers", "schedules", "overrides", "limits", "limiters",
     "events", "stats", "healthz", "readyz", "metrics", "openapi.json", "docs", "redoc", "ui", "static",
     "favicon.ico", "robots.txt", "pause", "resume", "restamp"}
)  # fmt: skip
"""Names that are paths of the HTTP interface, where `POST /{name}` submits a workflow."""

_LONGEST_NAME: Final = 128
_TRIGGERED: Final = ("key", "events", "count")


@dataclass(frozen=True, eq=False)
class Workflow(Generic[P, R]):
    """A body with its flow control; calling it calls the body, as if it had not been decorated.

    fn: the body. declared: its flow control, checked, each gate with its name. limits, rates, trigger,
    fairness, retry, schedules, stream: as declared. signature: what the body takes. code: digest of the
    body's code. priority, gates and timeout_us are in `declared`.
    """

    name: str
    fn: Callable[P, Coroutine[Any, Any, R]]
    declared: Declared
    signature: Signature
    code: str
    limits: tuple[Limit, ...] = ()
    rates: tuple[Rate, ...] = ()
    trigger: Collect | Debounce | None = None
    fairness: Fairness | None = None
    retry: Retry | None = None
    schedules: tuple[Cron | Every, ...] = ()
    stream: KafkaStream | None = None

    def __post_init__(self) -> None:
        for attribute in ("__module__", "__qualname__", "__doc__", "__name__"):
            object.__setattr__(self, attribute, getattr(self.fn, attribute, None))
        object.__setattr__(self, "__wrapped__", self.fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Call the body itself, outside any run: `await sync_account(ctx, …)`."""
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<workflow {self.name!r}>"

    @property
    def priority(self) -> int:
        """1 (first) to 5 (last), unless the submit says otherwise."""
        return self.declared.priority

    @property
    def timeout_us(self) -> int | None:
        """µs of one attempt."""
        return self.declared.timeout_us

    @property
    def gates(self) -> tuple[str, ...]:
        """Names of its gates, in the order of its stamp."""
        return tuple(gate.name for gate in self.declared.gates)

    def declaration(self) -> dict[str, Any]:
        """All of this but the code, as a JSON object: what a store remembers and other processes submit
        by."""
        parameters = [{"name": p.name, "required": p.required} for p in self.signature.parameters]
        return {
            **to_json(self.declared),
            "parameters": parameters,
            "open": self.signature.open,
            "schedules": [schedule.declaration() for schedule in self.schedules],
            "stream": self.stream.declaration() if self.stream else None,
            "code": self.code,
        }


class Registry:
    """The workflows of a process, by name. A worker serves one, a client submits by it."""

    def __init__(self) -> None:
        self._workflows: dict[str, Workflow[..., Any]] = {}

    def add(self, workflow: Workflow[..., Any]) -> None:
        """Register a workflow; a reloaded module's body takes the place of its earlier self.

        Raises `ConfigurationError` if another body has its name, or if a gate of it contradicts another
        workflow's.
        """
        known = self._workflows.get(workflow.name)
        if known is not None and known is not workflow and not _same_body(known.fn, workflow.fn):
            raise ConfigurationError(
                f"workflow {workflow.name!r}: two bodies have this name, {_where(known.fn)} and "
                f"{_where(workflow.fn)}; give one another name="
            )
        for other in self._workflows.values():
            if other is not known:
                _check_gates_agree(workflow, other)
        self._workflows[workflow.name] = workflow

    def get(self, name: str) -> Workflow[..., Any]:
        """The workflow of that name. Raises `WorkflowNotFound`."""
        found = self._workflows.get(name)
        if found is None:
            names = ", ".join(sorted(self._workflows)) or "none"
            raise WorkflowNotFound(
                f"no workflow {shown(name)} is declared here (declared: {names}); import the module that does"
            )
        return found

    def find(self, name: str) -> Workflow[..., Any] | None:
        """The workflow of that name, or None."""
        return self._workflows.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._workflows

    def __iter__(self) -> Iterator[Workflow[..., Any]]:
        return iter(tuple(self._workflows.values()))

    def __len__(self) -> int:
        return len(self._workflows)


default_registry: Final = Registry()
"""Where `@workflow` registers unless told otherwise."""


@overload
def workflow(body: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...


@overload
def workflow(
    *,
    name: str | None = None,
    concurrency: Limit | Sequence[Limit] | None = None,
    rate_limit: Rate | Sequence[Rate] | None = None,
    trigger: Collect | Debounce | None = None,
    fairness: Fairness | None = None,
    priority: int = 3,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    schedule: Cron | Every | Sequence[Cron | Every] | None = None,
    stream: KafkaStream | None = None,
    registry: Registry | None = None,
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Workflow[P, R]]: ...


def workflow(
    body: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    registry: Registry | None = None,
    **policies: Any,
) -> Any:
    """Declare an async function a workflow, with its flow control, and register it.

    name: default the function's. concurrency, rate_limit: a `Limit`, a `Rate`, or a sequence of them. trigger: a
    `Collect` or `Debounce` whose batches start it. fairness: between which keys. priority: 1 (first) to 5 (last).
    retry: of a failed attempt, by default none. timeout: seconds or a timedelta of one attempt. schedule: a `Cron`,
    an `Every`, or a sequence. stream: a `KafkaStream`, in place of concurrency, rate_limit and trigger. registry:
    default `default_registry`. Nothing in the body changes. Raises `ConfigurationError`, naming the workflow, the
    argument and the value, for whatever can't be kept; warns (`ConfigurationWarning`) of a key that the body can
    never receive. (Seed: flow-control.)
    """
    if isinstance(body, str):
        raise ConfigurationError(
            f"@workflow({shown(body)}): a name is given as name=: @workflow(name={shown(body)})"
        )
    if body is None:
        return functools.partial(_decorate, name=name, registry=registry, **policies)
    return _decorate(body, name=name, registry=registry, **policies)


def _decorate(
    body: Callable[..., Any],
    /,
    *,
    name: str | None,
    registry: Registry | None,
    schedule: object = None,
    stream: object = None,
    **policies: Any,
) -> Workflow[..., Any]:
    name = getattr(body, "__name__", None) if name is None else name
    check_workflow_name(name)
    check_registry(f"workflow {name!r}: registry", registry)
    assert isinstance(name, str)
    unknown = sorted(set(policies) - _POLICIES)
    if unknown:
        raise ConfigurationError(
            f"workflow {name!r}: {', '.join(unknown)} is no argument of @workflow; it takes name, "
            f"{', '.join(sorted(_POLICIES))}, schedule, stream and registry"
        )
    if not inspect.iscoroutinefunction(body):
        without = " without a `yield`" if inspect.isasyncgenfunction(body) else ""
        must = f"an `async def` function{without}; blocking work goes into ctx.step(fn, …)"
        raise refusal(name, "the body", body, must)
    declared = declare(name, **policies)
    made = Workflow(
        name=name,
        fn=body,
        declared=declared,
        signature=Signature(name, body),
        code=code_digest(body),
        limits=several(name, "concurrency", policies.get("concurrency"), Limit),
        rates=several(name, "rate_limit", policies.get("rate_limit"), Rate),
        trigger=policies.get("trigger"),
        fairness=policies.get("fairness"),
        retry=policies.get("retry"),
        schedules=_schedules(name, schedule),
        stream=_stream(name, stream, policies),
    )
    _check_body(made)
    (default_registry if registry is None else registry).add(made)
    _warn_of_lost_keys(made)
    return made


_POLICIES: Final = frozenset(
    {"concurrency", "rate_limit", "trigger", "fairness", "priority", "retry", "timeout"}
)


def check_workflow_name(name: object) -> None:
    """Raise `ConfigurationError` unless `name` can be a workflow's: in a URL, on a command line, in a run
    id."""
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= _LONGEST_NAME
        or not (name[0].isalnum() or name[0] == "_")
        or not all(c.isalnum() or c in "_-." for c in name)
    ):
        must = (
            f"1 to {_LONGEST_NAME} letters, digits, '_', '-' and '.', the first a letter, a digit or '_'; "
            "say @workflow(name=…)"
        )
        raise (
            refusal(shown(name), "name", name, must)
            if not isinstance(name, str)
            else refusal(name, "name", name, must)
        )
    if name in ROUTES:
        raise refusal(name, "name", name, f"none of the HTTP routes ({', '.join(sorted(ROUTES))})")


def _schedules(name: str, schedule: object) -> tuple[Cron | Every, ...]:
    items = (
        tuple(schedule) if isinstance(schedule, (list, tuple)) else () if schedule is None else (schedule,)
    )
    for item in items:
        if not isinstance(item, (Cron, Every)):
            raise refusal(name, "schedule", item, "a Cron or an Every, or a sequence of them")
        item.check(name)
    return items


def _stream(name: str, stream: object, policies: dict[str, Any]) -> KafkaStream | None:
    if stream is None:
        return None
    if not isinstance(stream, KafkaStream):
        raise refusal(name, "stream", stream, "a KafkaStream")
    stream.check(name)
    for argument in ("concurrency", "rate_limit", "trigger"):
        if policies.get(argument):
            raise ConfigurationError(
                f"workflow {name!r}: {argument} is {shown(policies[argument])} beside stream=; records are "
                "processed as they are consumed, so throttle the stream with max_concurrency and the "
                "partition count"
            )
    return stream


def _check_body(made: Workflow[..., Any]) -> None:
    """Refuse a body that would fail every run it is started for."""
    received = _TRIGGERED if made.trigger else ("record",) if made.stream else None
    if received is not None:
        wrong = made.signature.misfit(received)
        if wrong is not None:
            source = "a batch" if made.trigger else "a record"
            raise ConfigurationError(
                f"workflow {made.name!r}: its runs receive {', '.join(received)} of {source}, but {wrong}"
            )
    for schedule in made.schedules:
        try:  # by a signature that is thrown away: what its annotations name may be defined below the body
            Signature(made.name, made.fn, early=True).check(schedule.params)
        except InvalidParams as error:
            kind = type(schedule).__name__
            raise ConfigurationError(f"{error}; {kind}.params is {shown(schedule.params)}") from None


def _warn_of_lost_keys(made: Workflow[..., Any]) -> None:
    policies: list[tuple[str, Limit | Rate | Fairness]] = [
        *(("concurrency", limit) for limit in made.limits),
        *(("rate_limit", rate) for rate in made.rates),
        *([("fairness", made.fairness)] if made.fairness else []),
    ]
    for argument, policy in policies:
        key = policy.key
        if not isinstance(key, str):
            continue
        if made.trigger and key != "key":
            why = 'the gates of a triggered workflow are keyed on "key", the batch key'
        elif not made.signature.takes(key):
            why = f"the body has no parameter {key!r}"
        else:
            continue
        warn(
            made.fn,
            f"workflow {made.name!r}: {argument} is keyed on {key!r}, but {why}: all runs would share one bucket",
        )


def _same_body(one: Any, other: Any) -> bool:
    """Whether two functions are one definition: reloaded, or run as __main__ and imported as well."""
    one, other = inspect.unwrap(one), inspect.unwrap(other)
    if one is other:
        return True
    if getattr(one, "__qualname__", None) != getattr(other, "__qualname__", None):
        return False
    return one.__module__ == other.__module__ or _file(one) == _file(other) is not None


def _file(fn: Any) -> str | None:
    code = getattr(fn, "__code__", None)
    return code.co_filename if code else None


def _where(fn: Any) -> str:
    return f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', fn)}"


def _check_gates_agree(new: Workflow[..., Any], known: Workflow[..., Any]) -> None:
    mine: dict[tuple[str, str], DeclaredGate] = {(gate.kind, gate.name): gate for gate in new.declared.gates}
    for theirs in known.declared.gates:
        gate = mine.get((theirs.kind, theirs.name))
        if gate is None:
            continue
        if not (gate.shared and theirs.shared):
            raise ConfigurationError(
                f"workflow {new.name!r}: gate {gate.name!r} is also a gate of workflow {known.name!r}; "
                f"write shared={gate.name!r} on both to share one counter, or give each a name= of its own"
            )
        if gate.number != theirs.number:
            raise ConfigurationError(
                f"workflow {new.name!r}: shared gate {gate.name!r} is {_shown_number(gate)} here and "
                f"{_shown_number(theirs)} in workflow {known.name!r}; one counter has one number"
            )


def _shown_number(gate: DeclaredGate) -> str:
    if isinstance(gate.number, int):
        return f"max={gate.number}"
    p, q, burst = gate.number
    return f"per_second={p / q:g}, burst={burst}"


def check_registry(option: str, value: object) -> None:
    """Raise `ConfigurationError` unless it is a registry, or None."""
    right = value is None or isinstance(value, Registry)
    expect(option, value, right, "a Registry, or None for the default one")
