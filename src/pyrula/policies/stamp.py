"""Stamps: the policies as they are fixed on a run when it is submitted, by whichever path submits it.

A stamp holds numbers only, alike for the runs of a declaration, and is kept once; what differs from run to
run (key values, priority, unit) is `Stamped`. Changing a decorator changes the stamps of new runs, not of
queued ones: both draw on the same counters, each with its own number. (Seed: flow-control, "The policy is
stamped when the run is submitted".)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from pyrula.errors import ConfigurationError
from pyrula.policies.collect import CollectStamp
from pyrula.policies.debounce import DebounceStamp
from pyrula.policies.declared import Declared, check_priority, from_json
from pyrula.policies.key import is_unicode, resolve, storable
from pyrula.policies.retry import NO_RETRY, RetryStamp

GateKind = Literal["limit", "rate"]
RouteBy = Literal["run", "key", "shared", "workflow", "several"]


class GateStamp(msgspec.Struct, frozen=True, array_like=True):
    """One gate of a run. number: max of a limit; (p, q, burst) of a rate, p/q starts per second. hold: of a
    limit."""

    name: str
    kind: GateKind
    number: int | tuple[int, int, int]
    hold: Literal["executing", "run"] = "executing"


class Stamp(msgspec.Struct, frozen=True, array_like=True, cache_hash=True):
    """Numbers that hold for a run until it ends. gates: in the order of kind and name, limits first.

    weight: of its unit. timeout_us: of one attempt. trigger: the policy of its buffer, if it comes from one.
    owned: only a worker that owns its unit may start it, as the owner of a partition does (`served_name`).
    """

    gates: tuple[GateStamp, ...] = ()
    weight: float = 1.0
    retry: RetryStamp = NO_RETRY
    timeout_us: int | None = None
    trigger: CollectStamp | DebounceStamp | None = None
    owned: bool = False

    def encode(self) -> bytes:
        """This stamp as JSON; equal stamps have equal bytes."""
        return _encoded(self)[0]

    @property
    def digest(self) -> bytes:
        """16 bytes: the id under which a store keeps it once."""
        return _encoded(self)[1]

    @staticmethod
    def decode(data: bytes | str) -> Stamp:
        """The stamp that `encode` wrote."""
        return _decode_stamp(data)


class Stamped(msgspec.Struct, frozen=True, array_like=True, gc=False, cache_hash=True):
    """The answer of stamping one submission.

    keys: key values in storable form, aligned with `stamp.gates`. unit_key: whose turn it takes. priority: 1
    (first) to 5 (last). route: the text that decides its shard; None: its run id does. by: what that text is;
    "several": the names of several shared gates were to be, so only a store of one shard takes it.
    """

    stamp: Stamp
    keys: tuple[str, ...] = ()
    unit_key: str = ""
    priority: int = 3
    route: str | None = None
    by: RouteBy = "run"

    @property
    def weight(self) -> float:
        """The weight of its unit."""
        return self.stamp.weight

    def encode(self) -> bytes:
        """This as JSON."""
        return msgspec.json.encode(self)

    @staticmethod
    def decode(data: bytes | str) -> Stamped:
        """What `encode` wrote."""
        return _decode_stamped(data)


class StampedEvent(NamedTuple):
    """Where an event goes. key: of its buffer, storable; text: the same as resolved, which the run receives
    as `key`.

    stamped: how the batch's run is stamped; `stamped.stamp.trigger` is the policy of a buffer that it opens.
    """

    key: str
    text: str
    stamped: Stamped


class Declaring(Protocol):
    """What has declared flow control: a `Workflow`."""

    @property
    def declared(self) -> Declared: ...


_decode_stamp = msgspec.json.Decoder(Stamp).decode
_decode_stamped = msgspec.json.Decoder(Stamped).decode


@lru_cache(4096)
def _encoded(stamp: Stamp) -> tuple[bytes, bytes]:
    data = msgspec.json.encode(stamp)
    return data, blake2b(data, digest_size=16, person=b"stamp").digest()


def stamp_run(workflow: Declaring, params: Mapping[str, Any], priority: int | None = None) -> Stamped:
    """Fix the policies and key values of one submission. params: as submitted. priority: instead of the
    declared one.

    Raises `KeyFailed` if a key function fails, `ConfigurationError` for a priority outside 1 to 5.
    """
    return stamp_declared(workflow.declared, params, priority)


def stamp_event(workflow: Declaring, event: Mapping[str, Any]) -> StampedEvent:
    """Find an event's buffer, and stamp the run that the batch becomes; its gates are keyed on the batch's
    "key".

    Raises `ConfigurationError` if the workflow has no trigger, `KeyFailed` if a key function fails.
    """
    return stamp_event_declared(workflow.declared, event)


def stamp_by_declaration(
    declaration: Mapping[str, Any], params: Mapping[str, Any], priority: int | None = None
) -> Stamped:
    """`stamp_run` by `Workflow.declaration()`, where the code is not. Raises `KeyNeedsCode` if a key is a
    function."""
    return stamp_declared(from_json(declaration), params, priority)


def stamp_event_by_declaration(declaration: Mapping[str, Any], event: Mapping[str, Any]) -> StampedEvent:
    """`stamp_event` by `Workflow.declaration()`, where the code is not. Raises `KeyNeedsCode` if a key is a
    function."""
    return stamp_event_declared(from_json(declaration), event)


def stamp_declared(declared: Declared, params: Mapping[str, Any], priority: int | None = None) -> Stamped:
    """`stamp_run` by declared flow control."""
    priority = declared.priority if priority is None else check_priority(declared.workflow, priority)
    keys, places = declared.keys
    # one function, one call: all gates see the same answer
    texts = [resolve(key, params, declared.workflow) for key in keys]
    weight = declared.weights.get(texts[places[-1]], declared.usual_weight)
    return _stamped(declared, weight, priority, tuple([storable(text) for text in texts]))


@lru_cache(16384)
def _stamped(declared: Declared, weight: float, priority: int, texts: tuple[str, ...]) -> Stamped:
    """texts: of the different keys, storable."""
    *keys, unit = [texts[at] for at in declared.keys[1]]
    by, name = declared.routing
    route = None if by == "run" else keys[0] if by == "key" else name
    how: RouteBy = by if len(declared.shared) < 2 else "several"
    return Stamped(_stamp(declared, weight), tuple(keys), unit, priority, route, how)


def stamp_event_declared(declared: Declared, event: Mapping[str, Any]) -> StampedEvent:
    """`stamp_event` by declared flow control."""
    if declared.trigger is None:
        raise ConfigurationError(
            f"workflow {declared.workflow!r} has no trigger=, so it takes no events; submit a run, or "
            "declare a Collect or a Debounce"
        )
    text = resolve(declared.trigger_key, event, declared.workflow)
    if not is_unicode(
        text
    ):  # only a key function can make such a text; JSON, which the run is handed, can't hold it
        text = storable(text)
    return StampedEvent(storable(text), text, stamp_declared(declared, {"key": text}))


@lru_cache(1024)
def _stamp(declared: Declared, weight: float) -> Stamp:
    gates = tuple(GateStamp(gate.name, gate.kind, gate.number, gate.hold) for gate in declared.gates)
    return Stamp(gates, weight, declared.retry, declared.timeout_us, declared.trigger)


def served_name(workflow: str, unit_key: str, stamp: Stamp) -> str:
    """What a worker must serve to be handed a run: its workflow, or where `stamp.owned` the unit of it that
    it owns. No workflow has such a name: "@" is no character of one."""
    return f"{workflow}@{unit_key}" if stamp.owned else workflow


# -- ids: digests of what they stand for, so that a submit needs no look-up and two processes agree without
# asking


def gate_id(name: str, kind: GateKind, key: str) -> bytes:
    """16 bytes for the counter of one key (storable form) of a gate."""
    return _id(b"gate", name, kind, key)


def gate_ids(stamped: Stamped) -> tuple[bytes, ...]:
    """The ids of a run's gates, aligned with `stamp.gates`."""
    return tuple(
        gate_id(gate.name, gate.kind, key)
        for gate, key in zip(stamped.stamp.gates, stamped.keys, strict=True)
    )


def unit_id(workflow: str, unit_key: str) -> bytes:
    """16 bytes for what is treated fairly: a workflow and a fairness key (storable form)."""
    return _id(b"unit", workflow, unit_key)


def lane_id(workflow: str, priority: int, unit_key: str, gates: Iterable[bytes]) -> bytes:
    """16 bytes for the lane of runs alike in workflow, priority, unit and gates (ids, in the order of the
    stamp)."""
    return _id(b"lane", workflow, str(priority), unit_key, *gates)


def _id(person: bytes, *parts: str | bytes) -> bytes:
    hashed = blake2b(digest_size=16, person=person)
    for part in parts:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        hashed.update(len(data).to_bytes(4, "big"))  # or ("a", "bc") would be ("ab", "c")
        hashed.update(data)
    return hashed.digest()
