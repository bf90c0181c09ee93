"""Drain: what is due. Timers, run_at, buffers, schedules, overrides that lapse; and now and then the broom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyrula.clock import SECOND
from pyrula.store.shard import deadlock, schedule
from pyrula.store.shard.aside import Versions
from pyrula.store.shard.cancel import unqueue
from pyrula.store.shard.finish import finish
from pyrula.store.shard.fire import fire_due
from pyrula.store.shard.handin import put_back
from pyrula.store.shard.settle import settle
from pyrula.store.shard.steer import expire
from pyrula.store.shard.submit import EXPIRE, START, WAIT
from pyrula.store.shard.sweep import OLDEST, Place, sweep
from pyrula.store.shard.tx import Tx

_TIMERS: Final = 256
_BUFFERS: Final = 64
_TICKS: Final = 16
_SWEEP: Final = 200
_SWEEP_EVERY: Final = 10 * SECOND
_ROUND_EVERY: Final = 3600 * SECOND
_DEADLOCK_EVERY: Final = 5 * SECOND


@dataclass(slots=True)
class Broom:
    """When this process last looked at what need not be looked at in every turn. retention: µs; swept_to: the ended run
    that was looked at last, those before it being gone or kept as children of open parents, until the next round.
    """

    retention: int
    next_sweep: int = 0
    next_round: int = 0
    swept_to: Place = OLDEST
    next_deadlock: int = 0


def drain(tx: Tx, shard: int, broom: Broom) -> bool:
    """Move what is due; True when some of it is left for the next turn."""
    more = _timers(tx)
    more = fire_due(tx, _BUFFERS, shard) >= _BUFFERS or more
    more = schedule.tick(tx, _TICKS, shard) >= _TICKS or more
    expire(tx)
    if tx.now >= broom.next_deadlock:
        broom.next_deadlock = tx.now + _DEADLOCK_EVERY
        deadlock.find(tx)
    if tx.now >= broom.next_sweep:
        _sweep(tx, broom)
    return more


def _sweep(tx: Tx, broom: Broom) -> None:
    swept = sweep(tx, tx.now - broom.retention, _SWEEP, broom.swept_to)
    broom.swept_to = swept.to
    broom.next_sweep = tx.now if swept.more else tx.now + _SWEEP_EVERY
    if not swept.more and tx.now >= broom.next_round:  # parents of those that were kept have ended meanwhile
        broom.swept_to, broom.next_round = OLDEST, tx.now + _ROUND_EVERY


def _timers(tx: Tx) -> bool:
    due = tx.rows("drain.timers", tx.now, _TIMERS)
    wall_due = tx.rows("drain.wall_timers", tx.wall, _TIMERS)
    if not due and not wall_due:
        return False
    tx.many("drain.drop_timer", due)
    tx.many("drain.drop_wall_timer", wall_due)
    by_kind: dict[int, list[int]] = {START: [seq for _, seq in wall_due], WAIT: [], EXPIRE: []}
    for _, seq, kind in due:
        by_kind[kind].append(seq)
    for seq in by_kind[EXPIRE]:
        _expire(tx, seq)
    _start(tx, by_kind[START])
    settle(tx, by_kind[WAIT])
    return len(due) == _TIMERS or len(wall_due) == _TIMERS


def _start(tx: Tx, seqs: list[int]) -> None:
    """Delays and back-offs that are over: to the fresh queue, unless the run was cancelled or taken up meanwhile."""
    put_back(tx, [seq for (seq,) in tx.match("drain.start", [(seq,) for seq in seqs])], resumed=False)


def _expire(tx: Tx, seq: int) -> None:
    """A run that has not started in time: it takes no slot and no token."""
    row = tx.row("drain.expire", seq)
    if row is not None:
        unqueue(tx, [(row[0], seq)])
        finish(tx, seq, "expired")


def next_due(tx: Tx, incarnation: str, broom: Broom, versions: Versions, *, room: bool) -> int | None:
    """µs from now until something is due by itself; None if nothing is: a timer, a buffer, a tick, another worker's
    lapse, a look for deadlocks while there may be one, one for runs that were set aside while there are any, and for a
    worker that has room a token.
    """
    times = tx.row("drain.next_due", incarnation)
    walls = tx.row("drain.next_wall")
    assert times is not None and walls is not None
    token, *others, aside = times
    waits = [time - tx.now for time in ((token, *others) if room else others) if time is not None]
    waits += [wall - tx.wall for wall in walls if wall is not None]
    if aside:
        waits.append(versions.due.get(incarnation, 0) - tx.now)
    # runs in a deadlock ring for nobody: somebody has to come and look
    look_in = broom.next_deadlock - tx.now
    if all(wait > look_in for wait in waits) and tx.rows("deadlock.suspects", 0, 1):
        waits.append(look_in)
    return max(0, min(waits)) if waits else None
