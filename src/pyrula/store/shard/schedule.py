"""Schedule: submit the runs whose tick has come, one per tick however many workers there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from pyrula.clock import SECOND
from pyrula.policies.schedule import schedule_from, tick_name
from pyrula.store.protocol import Submission
from pyrula.store.shard.submit import submit
from pyrula.store.shard.tx import Tx

_AWAY: Final = 5000 * 365 * 86_400 * SECOND
"""Added to the moment of a tick that came while no worker served its workflow: nobody looks at it before one registers.
In the calendar still, so that whoever looks can tell the moment."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Submission).decode


def tick(tx: Tx, limit: int, shard: int) -> int:
    """Submit what is due by the wall clock, at most `limit` ticks; how many. Of ticks that nobody was there
    for only the latest is made up for. A run's id names its schedule and tick: a tick that is met again is
    the same run. A workflow that no worker serves (it was renamed, removed, or its workers are down) has no ticks until
    one registers it: they would pile up, for ever if none does.
    """
    due = tx.rows("schedule.due", tx.wall, limit)
    served = _served(tx) if due else frozenset()
    submissions, nexts = [], []
    for workflow, number, schedule, submission, wall_due in due:
        if workflow not in served:
            nexts.append((workflow, number, wall_due + _AWAY))
            continue
        next_after = schedule_from(msgspec.json.decode(schedule)).next_after
        name = tick_name(latest(next_after, wall_due, tx.wall))
        run_id = f"{workflow}/{number}@{name}" if number else f"{workflow}@{name}"
        submissions.append(msgspec.structs.replace(_decode(submission), run_id=run_id))
        nexts.append((workflow, number, next_after(tx.wall)))
    if submissions:
        submit(tx, submissions)
    tx.many("schedule.next", nexts)
    return len(due)


def _served(tx: Tx) -> frozenset[str]:
    """What workers serve that nobody has given up: until then one goes on as it is, and does not register again."""
    return frozenset(name for (serves,) in tx.rows("schedule.served") for name in msgspec.json.decode(serves))


def told(wall_due: int) -> tuple[int, bool]:
    """The moment of a next tick, and whether it waits there for a worker that serves its workflow."""
    return (wall_due - _AWAY, True) if wall_due >= _AWAY else (wall_due, False)


def latest(next_after: Callable[[int], int], due: int, wall: int) -> int:
    """The last tick not after `wall`; `due` is one. Looks back in steps that double, not through all ticks
    since.
    """
    span = SECOND
    while span < wall - due:
        found = next_after(wall - span)
        if found <= wall:
            due = max(due, found)
            break
        span *= 2
    while (later := next_after(due)) <= wall:
        due = later
    return due


def put(tx: Tx, workflow: str, schedules: Sequence[tuple[bytes, Submission] | None]) -> None:
    """Have a workflow run by these schedules (JSON) and no others; None: one that lives on another shard. One that it
    had keeps its next tick, also one that nobody was there for.
    """
    before = {number: (schedule, told(due)[0]) for number, schedule, due in tx.rows("schedule.of", workflow)}
    tx.run("schedule.drop", workflow)
    rows = []
    for number, one in enumerate(schedules):
        if one is None:
            continue
        schedule, submission = one
        known, due = before.get(number, (None, 0))
        if known != schedule:
            due = schedule_from(msgspec.json.decode(schedule)).next_after(tx.wall)
        rows.append((workflow, number, schedule, _encode(submission), due))
    tx.many("schedule.put", rows)
