"""Limiter configuration from elsewhere: it waits in a worker's row until the worker has taken it up.

The facts of a worker hold, as `limiters`, its configuration in force and the number of the last change from
elsewhere that it has taken up. The newest number, and what is still to be taken up, are columns of their own, so
that the two never write over each other.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pyrula.store.shard.tx import Tx

Json = dict[str, Any]


def configure(tx: Tx, worker_id: str | None, changes: bytes) -> dict[str, bytes]:
    """Have the live workers of that name (None: all) change their limiters; answers what each will have, as JSON.

    changes: a JSON object as `pyrula.limiters.wire` has it, checked by the caller; what it leaves out stays as it
    is. Workers that start later are not concerned.
    """
    given: Json = msgspec.json.decode(changes)
    wants, answers = [], {}
    for incarnation, name, facts, limiters, number in tx.rows("limiter_config.workers", tx.now, worker_id):
        known: Json = msgspec.json.decode(facts)
        wanted = {**_pending(known, limiters, number), **given}
        wants.append((incarnation, msgspec.json.encode(wanted), number + 1))
        answers[name] = msgspec.json.encode({**_in_force(known), **wanted})
    tx.many("limiter_config.want", wants)
    return answers


def expected(facts: Json, limiters: bytes | None, number: int) -> Json:
    """The configuration that a worker has, or will have once it has taken up what is wanted."""
    return {**_in_force(facts), **_pending(facts, limiters, number)}


def is_pending(facts: Json, number: int) -> bool:
    """Whether the worker has not said yet that it has taken up the newest change."""
    taken: int = facts.get("limiters", {}).get("number", 0)
    return number > taken


def _pending(facts: Json, limiters: bytes | None, number: int) -> Json:
    if limiters is None or not is_pending(facts, number):
        return {}
    wanted: Json = msgspec.json.decode(limiters)
    return wanted


def _in_force(facts: Json) -> Json:
    config: Json = facts.get("limiters", {}).get("config", {})
    return config
