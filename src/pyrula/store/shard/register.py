"""Register: a worker says who it is and what it serves; later it says that it lives, or that it leaves."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pyrula.store.protocol import Registration
from pyrula.store.shard import aside, schedule
from pyrula.store.shard.reap import give_up
from pyrula.store.shard.tx import Tx


def register(tx: Tx, registration: Registration, shard: int) -> None:
    """Take a worker in. Its declarations are the newest from now on, with their schedules, and runs that were
    set aside by code other than its own are taken up again.
    """
    incarnation, lease = registration.incarnation, registration.lease
    serves = _encoded([*registration.declarations, *registration.units])
    tx.run(
        "register.worker",
        incarnation,
        registration.worker_id,
        lease,
        tx.now + lease,
        tx.now,
        serves,
        registration.facts,
    )
    for workflow, declaration in registration.declarations.items():
        tx.run("register.definition", workflow, declaration, registration.codes.get(workflow, ""), tx.now)
        schedule.put(tx, workflow, registration.schedules.get(workflow, ()))
    aside.take_up(tx, registration.codes)


def serve(tx: Tx, incarnation: str, names: Iterable[str]) -> bool:
    """From now on a worker serves these names and no others; False when it was given up, and nothing changed."""
    return tx.run("register.serve", incarnation, _encoded(names)) > 0


def _encoded(names: Iterable[str]) -> str:
    return msgspec.json.encode(sorted(names)).decode()


def heartbeat(tx: Tx, incarnation: str) -> bool:
    """Renew a worker's leases; False when it was given up, and may not go on."""
    return tx.run("register.heartbeat", incarnation, tx.now) > 0


def report(tx: Tx, incarnation: str, facts: bytes) -> None:
    """Note what a worker says of itself (JSON object), for `why` and the list of workers."""
    tx.run("register.report", incarnation, facts)


def leave(tx: Tx, incarnation: str) -> bool:
    """A worker is gone for good: what it held goes back to the head of its lanes. True when some is left to
    do.
    """
    return give_up(tx, incarnation, lapsed=False)


def declaration(tx: Tx, workflow: str) -> bytes | None:
    """The newest declaration of a workflow, if a worker has registered one."""
    row = tx.row("register.declaration", workflow)
    return None if row is None else bytes(row[0])
