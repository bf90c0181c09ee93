"""Steering gates on several shards: on all of them, as any may have a key of the gate one day."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyrula.errors import GateNotFound, ShardMismatch
from pyrula.policies.stamp import Stamped
from pyrula.store.shard import steer
from pyrula.store.shard.placing import place
from pyrula.store.shard.tx import Tx
from pyrula.store.sharded.shards import Shards


async def steer_all(shards: Shards, gate: str, verb: Callable[..., None]) -> None:
    """Run a verb of steering on every shard. Raises `GateNotFound` if none knows the gate, and the first error once all
    were tried: it holds on the others, and calling again does no harm.
    """
    answers, unreached = await shards.each(lambda store: store.read(partial(_kinds, gate=gate)))
    unknown = [answer for answer in answers.values() if isinstance(answer, GateNotFound)]
    known = {kind for answer in answers.values() if not isinstance(answer, GateNotFound) for kind in answer}
    if not known and unknown and not unreached:
        raise unknown[0]
    await shards.every(lambda store: store.write(partial(verb, known=known)))


def _kinds(tx: Tx, gate: str) -> set[str] | GateNotFound:
    try:
        return steer.kinds(tx, gate)
    except GateNotFound as error:
        return error


def stamp_here(
    workflow: str,
    stamper: Callable[[bytes, int], Stamped],
    shard: int,
    shards: int,
    params: bytes,
    priority: int,
) -> Stamped:
    """A stamp for a run that is queued on a shard. Raises `ShardMismatch` if its gates are counted elsewhere."""
    stamped = stamper(params, priority)
    if stamped.route is not None and place(stamped.route, shards) != shard:
        raise ShardMismatch(
            f"workflow {workflow!r}: as declared now, gates of runs queued on shard {shard} are counted on shard "
            f"{place(stamped.route, shards)}; let them start as they were stamped, or cancel them and submit them anew"
        )
    return stamped
