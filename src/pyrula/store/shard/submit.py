"""Submit: write a run down and ring its lane's bell. Touches no lane and no gate, so it waits for nobody."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from pyrula.model.payload import canonical, decode
from pyrula.policies.stamp import Stamped, gate_ids, lane_id, served_name
from pyrula.store.protocol import Submission, Submitted
from pyrula.store.shard import hold
from pyrula.store.shard.tx import Tx

START, WAIT, EXPIRE = 0, 1, 2
"""Kinds of timer."""


class _Written(NamedTuple):
    """Of a run what its workflow and its stamping alone tell. lane: if it holds no slot; keys: as JSON."""

    digest: bytes
    lane: bytes
    keys: str


@lru_cache(maxsize=32768)
def _written(workflow: str, stamped: Stamped) -> _Written:
    served = served_name(workflow, stamped.unit_key, stamped.stamp)
    lane = lane_id(served, stamped.priority, stamped.unit_key, gate_ids(stamped))
    return _Written(stamped.stamp.digest, lane, msgspec.json.encode(stamped.keys).decode())


def lane_of(submission: Submission) -> bytes:
    """The lane of a run that holds no slot."""
    return _written(submission.workflow, submission.stamped).lane


def put_stamps(tx: Tx, stamps: Sequence[Stamped]) -> None:
    """Store each stamp once; they are immutable and named by their digest."""
    unique = dict.fromkeys(stamped.stamp for stamped in stamps)
    tx.many("submit.stamp", [(stamp.digest, stamp.encode()) for stamp in unique])


def submit(tx: Tx, submissions: Sequence[Submission]) -> list[Submitted]:
    """Write runs down, in order; each has its run_id. One that is there already is answered as it stands."""
    put_stamps(tx, [submission.stamped for submission in submissions])
    lanes = [_lane_for(tx, submission) for submission in submissions]
    rows = [
        row_of(submission, lane, tx.now, tx.wall) for submission, lane in zip(submissions, lanes, strict=True)
    ]
    created: dict[str, int] = {str(run_id): seq for run_id, seq in tx.match("submit.run", rows)}
    answers: list[Submitted] = []
    queued, timers, wall_timers = [], [], []
    bells: dict[bytes, None] = {}
    for submission, lane in zip(submissions, lanes, strict=True):
        run_id = submission.run_id
        assert run_id is not None
        seq = created.pop(run_id, None)
        if seq is None:
            there = existing(tx, submission)
            assert there is not None
            answers.append(there)
            continue
        answers.append(Submitted(run_id, created=True))
        if submission.delay is not None:
            timers.append((tx.now + submission.delay, seq, START))
        elif submission.run_at is not None:
            wall_timers.append((submission.run_at, seq))
        else:
            queued.append((lane, 0, seq, _written(submission.workflow, submission.stamped).digest))
            bells[lane] = None
        if submission.expires_in is not None:
            timers.append((tx.now + submission.expires_in, seq, EXPIRE))
    tx.many("submit.queue", queued)
    tx.many("submit.join", [(lane,) for lane in bells])
    tx.many("submit.timer", timers)
    tx.many("submit.wall_timer", wall_timers)
    return answers


def _lane_for(tx: Tx, submission: Submission) -> bytes:
    stamped = submission.stamped
    if submission.parent is not None and stamped.stamp.gates:
        return hold.lane_for_child(tx, submission)
    return lane_of(submission)


def row_of(submission: Submission, lane: bytes, now: int, wall: int) -> tuple[object, ...]:
    """The parameters of `submit.run`."""
    stamped = submission.stamped
    written = _written(submission.workflow, stamped)
    delayed = submission.delay is not None or submission.run_at is not None
    return (
        submission.run_id,
        submission.workflow,
        submission.params,
        written.digest,
        lane,
        stamped.priority,
        stamped.unit_key,
        written.keys,
        "delay" if delayed else None,
        submission.parent,
        now,
        wall,
        submission.context,
    )


def existing(tx: Tx, submission: Submission) -> Submitted | None:
    """A run id given twice: the same run if workflow and params are the same. None: no such run is here."""
    row = tx.row("submit.existing", submission.run_id)
    if row is None:
        return None
    assert submission.run_id is not None
    return Submitted(submission.run_id, created=False, conflict=not is_same(submission, *row))


def is_same(submission: Submission, workflow: str, params: bytes) -> bool:
    """Whether a run that is there is what is submitted: the same params, in whatever order they are written. `1`,
    `1.0` and `true` are equal to Python, and others to a key and to a body.
    """
    return workflow == submission.workflow and (
        params == submission.params or canonical(decode(params)) == canonical(decode(submission.params))
    )
