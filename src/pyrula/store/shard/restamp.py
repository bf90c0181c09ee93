"""Restamp: give queued runs what is declared now, in place of what they were submitted under."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from pyrula.policies.stamp import Stamp, Stamped
from pyrula.store.shard import hold
from pyrula.store.shard.submit import put_stamps
from pyrula.store.shard.tx import Tx

Stamper = Callable[[bytes, int], Stamped]
"""(params as JSON, priority of the run) → how it would be stamped now."""
_SCAN: Final = 2000


def restamp(tx: Tx, workflow: str, stamper: Stamper, after: int, scan: int = _SCAN) -> tuple[int, int | None]:
    """Restamp one batch of a workflow's runs: those that are queued or not due yet, in the order of
    submission.

    after: seq of the last run looked at. Answers how many were given another stamp, and how far it looked
    (None: no more are left). Runs that keep a slot while parked keep its stamp, too. Raises what the stamper
    raises.
    """
    looked = tx.row("restamp.look", workflow, after, scan)
    assert looked is not None
    last, seen = looked
    rows = tx.rows("restamp.queued", workflow, after, last) if seen else []
    changed = [
        (seq, lane, now)
        for seq, lane, params, priority, stamp, keys, unit_key in rows
        if _tell(now := _kept(tx, stamp, unit_key, stamper(params, priority)))
        != (stamp, keys, unit_key, priority)
    ]
    put_stamps(tx, [now for _, _, now in changed])
    tx.many("restamp.run", [(seq, *_tell(now)) for seq, _, now in changed])
    for seq, lane, now in changed:
        _move(tx, seq, lane, now.stamp.digest)
    return len(changed), last if seen >= scan else None


def _kept(tx: Tx, digest: bytes, unit_key: str, now: Stamped) -> Stamped:
    """A run that only the owner of its unit may start stays in that unit."""
    if not Stamp.decode(tx.rows("admit.stamp", digest)[0][0]).owned:
        return now
    owned = msgspec.structs.replace(now.stamp, owned=True)
    return msgspec.structs.replace(now, stamp=owned, unit_key=unit_key)


def _tell(stamped: Stamped) -> tuple[Any, ...]:
    """What a run's row says of its stamp: digest, keys, unit's key, priority."""
    keys = msgspec.json.encode(stamped.keys).decode()
    return stamped.stamp.digest, keys, stamped.unit_key, stamped.priority


def _move(tx: Tx, seq: int, lane: bytes, stamp: bytes) -> None:
    """To its new lane; in the one it has, its new stamp may let it go: both are looked at."""
    new = hold.lane_of_run(tx, seq)
    tx.run("hold.lane", seq, new)
    if new == lane:  # admission knows its head by its number, and would not look again
        tx.run("restamp.anew", lane, seq)
    moved = [(new, resumed, seq, stamp) for resumed, _ in tx.rows("hold.leave_lane", lane, seq)]
    tx.many("submit.queue", moved)
    tx.many("submit.bell", [(lane,), (new,)] if moved else [])
