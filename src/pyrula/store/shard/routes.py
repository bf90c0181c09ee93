"""Routes: what decides the shard of a workflow's gated runs, remembered by every shard.

A counter is exact because all runs that use it are on one shard; so no two routings of a gate may have unfinished
runs at once. A shard takes runs of a workflow only while its routing is *open* there. To change it, it is closed on
every shard, each of which sees to it that nothing is unfinished; then it is opened on every shard. Whoever else
closes it meanwhile, with another token, has won: what is opened must still be closed by the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from pyrula.errors import ConfigurationError
from pyrula.policies.declared import Declared
from pyrula.policies.stamp import RouteBy, Stamped
from pyrula.store.protocol import Submission, TriggerEvent
from pyrula.store.shard import outbox
from pyrula.store.shard.placing import place
from pyrula.store.shard.tx import Tx

_NAMED: Final = 5


class Route(NamedTuple):
    """How a workflow's gated runs are placed. how: "key", "shared <name>" or "workflow <name>". gates: their names."""

    workflow: str
    how: str
    gates: frozenset[str]

    @property
    def shown(self) -> str:
        """For people."""
        return "by the key's value" if self.how == "key" else f"by the name {self.how.partition(' ')[2]!r}"


class Known(NamedTuple):
    """A route as a shard remembers it. closed: the token of whoever is changing it."""

    route: Route
    closed: str | None


def route_of(workflow: str, stamped: Stamped) -> Route | None:
    """The route of a submission; None for a run without gates. Raises `ConfigurationError` for several shared names."""
    gates = frozenset(gate.name for gate in stamped.stamp.gates)
    return _route(workflow, stamped.by, "" if stamped.by == "key" else stamped.route or "", gates)


def route_declared(declared: Declared) -> Route | None:
    """The same of a declaration."""
    by: RouteBy = declared.routing.by if len(declared.shared) < 2 else "several"
    return _route(
        declared.workflow, by, declared.routing.value, frozenset(gate.name for gate in declared.gates)
    )


def _route(workflow: str, by: RouteBy, name: str, gates: frozenset[str]) -> Route | None:
    if by == "run":
        return None
    if by == "several":
        raise ConfigurationError(
            f"workflow {workflow!r}: it has several shared gates (its gates: {', '.join(sorted(gates))}), and on more "
            "than one shard the shared name decides where its runs are; give these gates one shared name, or keep "
            "them in a store of one shard"
        )
    return Route(workflow, "key" if by == "key" else f"{by} {name}", gates)


def routes_of(runs: Iterable[Submission | TriggerEvent]) -> list[Route]:
    """The routes of submissions or events, each workflow's gates together."""
    found: dict[tuple[str, str], frozenset[str]] = {}
    for run in runs:
        route = route_of(run.workflow, run.stamped)
        if route is not None:
            found[route[:2]] = found.get(route[:2], frozenset()) | route.gates
    return [Route(workflow, how, gates) for (workflow, how), gates in found.items()]


def clashes(routes: Sequence[Route]) -> str | None:
    """Two of these that share a gate and would place its runs on different shards, in a sentence."""
    for number, one in enumerate(routes):
        for other in routes[number + 1 :]:
            both = sorted(one.gates & other.gates)
            if both and one.how != other.how:
                return (
                    f"gate {both[0]!r}: runs of workflow {one.workflow!r} are placed {one.shown}, those of "
                    f"{other.workflow!r} {other.shown}, so on more than one shard its counter would be exact on none; "
                    "have both use one key for all their gates, or neither, or use a store of one shard"
                )
    return None


# -- in a shard


def closed(tx: Tx, wanted: Sequence[Route]) -> list[Route]:
    """Those of these routes that aren't open here; the others stay as they are until this is committed."""
    return [route for route in wanted if not _is_open(tx, route)]


def _is_open(tx: Tx, wanted: Route) -> bool:
    row = tx.row("routes.lock", wanted.workflow)
    if row is None:
        return False
    how, gates, token = row
    return token is None and how == wanted.how and wanted.gates <= _gates(gates)


def known(tx: Tx) -> list[Known]:
    """All that this shard remembers."""
    return [
        Known(Route(workflow, how, _gates(gates)), token)
        for workflow, how, gates, token in tx.rows("routes.all")
    ]


def is_open(remembered: Sequence[Known], wanted: Route) -> bool:
    """Whether a shard that remembers these takes runs by that route."""
    return any(
        token is None and route[:2] == wanted[:2] and wanted.gates <= route.gates
        for route, token in remembered
    )


def close(tx: Tx, wanted: Route, token: str, *, reschedules: bool) -> str | None:
    """Close a workflow's routing here. Answers what speaks against it; then nothing has changed.

    reschedules: its schedules are about to be declared anew.
    """
    for other in known(tx):
        route = other.route
        own = route.workflow == wanted.workflow
        if route.how in ("", wanted.how) or not (own or route.gates & wanted.gates):
            continue
        left = _unfinished(tx, route.workflow, schedules=not (own and reschedules))
        if left:
            whose = "its" if own else f"those of {route.workflow!r}, which has a gate in common,"
            return (
                f"workflow {wanted.workflow!r}: its gated runs are to be placed {wanted.shown}, and {whose} runs of "
                f"before are placed {route.shown}; while {left} they must not meet: counters would be wrong. Let "
                "them end or cancel them first, or keep the keys and shared names of its gates"
            )
    for other in known(tx):
        route = other.route
        if (
            route.workflow != wanted.workflow
            and route.gates & wanted.gates
            and route.how not in ("", wanted.how)
        ):
            tx.run(
                "routes.forget", route.workflow
            )  # it has nothing left, and has to say anew where its runs go
    tx.run("routes.close", wanted.workflow, token, "[]")
    return None


def open_(tx: Tx, wanted: Route, token: str) -> bool:
    """Open a routing that was closed with this token on every shard; False if somebody else closed it since."""
    row = tx.row("routes.of", wanted.workflow)
    if row is None or row[3] != token:
        return False
    _, how, gates, _ = row
    every = wanted.gates | _gates(gates) if how == wanted.how else wanted.gates
    encoded = msgspec.json.encode(sorted(every)).decode()
    return tx.run("routes.open", wanted.workflow, wanted.how, encoded, token) > 0


def reopen(tx: Tx, workflow: str, token: str) -> None:
    """Leave a routing as it was before it was closed with this token."""
    tx.run("routes.unmade", workflow, token)
    tx.run("routes.reopen", workflow, token)


def _unfinished(tx: Tx, workflow: str, *, schedules: bool) -> str:
    """What of a workflow is still placed as before, in words; "" if nothing is."""
    runs = [run_id for (run_id,) in tx.rows("routes.unfinished", workflow, _NAMED)]
    if runs:
        return f"such runs are unfinished ({', '.join(runs)}{', …' if len(runs) == _NAMED else ''})"
    keys = [text for (text,) in tx.rows("routes.buffered", workflow, _NAMED)]
    if keys:
        return f"events are buffered for it (keys {', '.join(map(repr, keys))}; client.flush fires them)"
    if schedules and tx.rows("routes.scheduled", workflow)[0][0]:
        return "a schedule submits such runs (a worker with the new code replaces it)"
    for message in outbox.on_their_way(tx):
        if isinstance(message, outbox.Submit) and any(
            run.workflow == workflow for run in message.submissions
        ):
            return "such runs are on their way to another shard"
    return ""


def misplaced(tx: Tx, run_ids: Sequence[str], shard: int, shards: int) -> str | None:
    """A run that must not start again here, for its workflow's gated runs are on other shards by now."""
    for run_id, workflow, keys in tx.match("routes.gated", [(run_id,) for run_id in run_ids]):
        row = tx.row("routes.of", workflow)
        if row is None:
            continue
        how = str(row[1])
        text = msgspec.json.decode(keys)[0] if how == "key" else how.partition(" ")[2]
        if place(text, shards) != shard:
            return (
                f"run {run_id!r} was placed on shard {shard}, and the gated runs of its workflow {workflow!r} go "
                f"elsewhere since its routing changed; submit it anew"
            )
    return None


def _gates(encoded: str) -> frozenset[str]:
    return frozenset(msgspec.json.decode(encoded, type=list[str]))
