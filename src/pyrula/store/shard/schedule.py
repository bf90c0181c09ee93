"""Schedule: submit the runs whose tick has come, one per tick however many workers there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from pyrula.clock import SECOND
from pyrula.policies.schedule import schedule_from, tick_name
from pyrula.store.protocol import Submission
from pyrula.store.shard.submit import submit
from pyrula.store.shard.tx import Tx

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Submission).decode


def tick(tx: Tx, limit: int, shard: int) -> int:
    """Submit what is due by the wall clock, at most `limit` ticks; how many. Of ticks that nobody was there
    for only the latest is made up for. A run's id names its schedule and tick: a tick that is met again is
    the same run.
    """
    due = tx.rows("schedule.due", tx.wall, limit)
    submissions, nexts = [], []
    for workflow, number, schedule, submission, wall_due in due:
        next_after = schedule_from(msgspec.json.decode(schedule)).next_after
        name = tick_name(latest(next_after, wall_due, tx.wall))
        run_id = f"{workflow}/{number}@{name}" if number else f"{workflow}@{name}"
        submissions.append(msgspec.structs.replace(_decode(submission), run_id=run_id))
        nexts.append((workflow, number, next_after(tx.wall)))
    if submissions:
        submit(tx, submissions)
        tx.many("schedule.next", nexts)
    return len(due)


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
    had keeps its next tick.
    """
    before = {number: (schedule, due) for number, schedule, due in tx.rows("schedule.of", workflow)}
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
