"""Registering a worker on several shards: what it declares, and what of it concerns each shard."""

from __future__ import annotations

from typing import Final

import msgspec

from pyrula.errors import ConfigurationError, StoreUnavailable
from pyrula.policies.declared import from_json
from pyrula.store.protocol import Registration, Submission
from pyrula.store.shard import routes
from pyrula.store.shard.placing import place
from pyrula.store.sharded.routing import Routing
from pyrula.store.sharded.shards import Shards

PATIENCE_SECONDS: Final = 1.0
"""How long a worker waits for the slowest shard before it begins on the others: less than a short lease."""


async def declare(shards: Shards, routing: Routing, registration: Registration) -> None:
    """Have the shards take the gated runs of what a worker declares. Raises `ConfigurationError`, `ShardMismatch`.

    While a shard can't be reached, what is new can't be submitted yet; what was there before can, on the others.
    """
    declared = [from_json(msgspec.json.decode(each)) for each in registration.declarations.values()]
    wanted = [route for each in declared if (route := routes.route_declared(each)) is not None]
    clash = routes.clashes(wanted)
    if clash is not None:
        raise ConfigurationError(clash)
    try:
        await routing.declare(await routing.is_open(wanted), reschedules=True)
    except StoreUnavailable:
        await shards.some(lambda store: store.read(lambda tx: True))


def part(registration: Registration, shard: int, shards: int) -> Registration:
    """What a shard is told. A schedule lives where its runs go."""
    schedules = {
        workflow: [
            tick if tick is not None and _place(workflow, tick[1], shards) == shard else None
            for tick in ticks
        ]
        for workflow, ticks in registration.schedules.items()
    }
    return msgspec.structs.replace(registration, schedules=schedules)


def _place(workflow: str, run: Submission, shards: int) -> int:
    return place(workflow if run.stamped.route is None else run.stamped.route, shards)
