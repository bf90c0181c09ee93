"""Steering gates on several shards: on all of them, as any may have a key of the gate one day."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pyrula.errors import GateNotFound, ShardMismatch
from pyrula.policies.stamp import Stamped
from pyrula.store.shard import routes, steer
from pyrula.store.shard.arrive import RouteClosed
from pyrula.store.shard.placing import place
from pyrula.store.shard.routes import Known
from pyrula.store.shard.shard import ShardStore
from pyrula.store.shard.tx import Tx
from pyrula.store.sharded.routing import Routing
from pyrula.store.sharded.shards import Shards


async def steer_all(shards: Shards, gate: str, verb: Callable[..., None]) -> None:
    """Run a verb of steering on every shard. Raises `GateNotFound` if none knows the gate, and the first error once all
    were tried: it holds on the others, and calling again does no harm.
    """
    answers, unreached = await shards.each(lambda store: store.read(partial(_kinds, gate=gate)))
    known = {kind for kinds, _ in answers.values() for kind in kinds}
    unknown = [told for _, told in answers.values() if told is not None]
    if not known and unknown and not unreached:
        raise GateNotFound(unknown[0])
    await shards.every(lambda store: store.write(partial(verb, known=known)))


def _kinds(tx: Tx, gate: str) -> tuple[set[str], str | None]:
    """limit, rate or both; and what a shard that does not know the gate says."""
    try:
        return steer.kinds(tx, gate), None
    except GateNotFound as error:
        return set(), str(error)


async def restamp_all(
    shards: Shards, routing: Routing, workflow: str, stamper: Callable[[bytes, int], Stamped]
) -> int:
    """Give queued runs a new stamp, where they are. Raises `ShardMismatch` if the gates of one are counted elsewhere by
    now.
    """

    async def on_one(store: ShardStore) -> int:
        known = await store.read(routes.known)
        return await store.restamp(
            workflow, partial(_stamp_here, workflow, stamper, known, store.shard, len(shards.numbers))
        )

    answers = await routing.open(lambda: shards.every(on_one))
    return sum(answers.values())


def _stamp_here(
    workflow: str,
    stamper: Callable[[bytes, int], Stamped],
    known: Sequence[Known],
    shard: int,
    shards: int,
    params: bytes,
    priority: int,
) -> Stamped:
    """A stamp for a run that is queued on a shard."""
    stamped = stamper(params, priority)
    if stamped.route is not None and place(stamped.route, shards) != shard:
        raise ShardMismatch(
            f"workflow {workflow!r}: as declared now, gates of runs queued on shard {shard} are counted on shard "
            f"{place(stamped.route, shards)}; let them start as they were stamped, or cancel them and submit them anew"
        )
    route = routes.route_of(workflow, stamped)
    if route is not None and not routes.is_open(known, route):
        raise RouteClosed([route])
    return stamped
