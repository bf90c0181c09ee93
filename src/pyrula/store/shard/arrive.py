"""Arrive: what comes to a shard of several, from clients or from other shards, and must be there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyrula.store.protocol import Submission, Submitted, TriggerEvent
from pyrula.store.shard import family, routes, trigger
from pyrula.store.shard.cancel import cancel
from pyrula.store.shard.outbox import (
    Ancestor,
    Cancel,
    Ended,
    Farewell,
    Message,
    Submit,
    fresh,
    send,
    send_aside,
)
from pyrula.store.shard.routes import Route
from pyrula.store.shard.settle import settle_parents
from pyrula.store.shard.submit import submit
from pyrula.store.shard.tx import Tx


class RouteClosed(Exception):
    """Nothing was written: these routes aren't open at this shard (any more), so they are to be declared."""

    def __init__(self, wanted: Sequence[Route]) -> None:
        super().__init__(", ".join(route.workflow for route in wanted))
        self.wanted = wanted


class Sent(NamedTuple):
    """A run of a chosen id. shard: where it is; fresh: the id was not known; times: how often its owner has sent it
    there, 0: it was not sent."""

    shard: int
    fresh: bool
    times: int = 0


def check_open(tx: Tx, runs: Sequence[Submission] | Sequence[TriggerEvent]) -> None:
    """Raises `RouteClosed` unless gated ones may be placed as they are."""
    wanted = routes.routes_of(runs)
    missing = routes.closed(tx, wanted) if wanted else []
    if missing:
        raise RouteClosed(missing)


def enter(tx: Tx, submissions: Sequence[Submission]) -> list[Submitted]:
    """Submit runs whose place is here, and whose ids are new or belong here."""
    check_open(tx, submissions)
    return submit(tx, submissions)


def trigger_here(tx: Tx, events: Sequence[TriggerEvent], shard: int) -> list[str | None]:
    """Buffer events whose runs have their place here."""
    check_open(tx, events)
    return trigger.trigger(tx, events, shard)


def choose(
    tx: Tx, chosen: Sequence[tuple[Submission, int]], line: Sequence[Ancestor]
) -> tuple[list[Sent], list[int]]:
    """At the shard to which chosen ids belong: note the places of their runs (submission, place), which are others,
    and have them sent there. Answers where each is, and the numbers of the messages. An id that is taken already
    stays where it is.
    """
    check_open(tx, [submission for submission, _ in chosen])
    here = tx.rows("outbox.here")[0][0]
    answers: list[Sent] = []
    away: dict[int, list[tuple[Submission, int]]] = {}
    for submission, place in chosen:
        known = tx.row("chosen.of", submission.run_id)
        if tx.row("reads.seq", submission.run_id) is not None:
            answers.append(Sent(here, False))
        elif known is not None and known[0] not in (place, -1):
            answers.append(Sent(known[0], False))
        else:
            times = tx.match("chosen.put", [(submission.run_id, place)])[0][2]
            away.setdefault(place, []).append((submission, times))
            answers.append(Sent(place, known is None, times))
    return answers, [
        send_aside(
            tx, place, Submit(tuple(run for run, _ in runs), tuple(line), tuple(times for _, times in runs))
        )
        for place, runs in away.items()
    ]


def come(tx: Tx, runs: Sequence[tuple[Submission, int]], line: Sequence[Ancestor]) -> list[Sent | Submitted]:
    """Submit runs of chosen ids in this order at their place. With each, how often its owner has sent it: 0 if its id
    belongs to this shard, which then knows whether it is taken.
    """
    here = tx.rows("outbox.here")[0][0]
    answers: dict[int, Sent | Submitted] = {}
    for number, (run, times) in enumerate(runs):
        known = None if times else tx.row("chosen.of", run.run_id)
        if known is not None and known[0] not in (here, -1):
            answers[number] = Sent(known[0], False)
    entering = [number for number in range(len(runs)) if number not in answers]
    family.put_line(tx, line)
    entered = enter(tx, [runs[number][0] for number in entering])
    answers.update(zip(entering, entered, strict=True))
    _cancel_at_once(tx, [runs[number][0] for number in entering])
    came = {run.run_id: (run.run_id, here, times) for run, times in runs if times}  # the last counts all
    tx.many("chosen.came", list(came.values()))
    return [answers[number] for number in range(len(runs))]


def note_child(tx: Tx, child: Submission, place: int, shard: int) -> tuple[Sent, tuple[Ancestor, ...]]:
    """At its parent's shard: note that a child is to be elsewhere. Answers where it is, and its line."""
    assert child.run_id is not None and child.parent is not None
    row = tx.row("family.sent", child.parent, child.run_id)
    if row is None and tx.row("reads.seq", child.run_id) is not None:
        return Sent(shard, False), ()
    if row is None and place != shard:
        check_open(tx, [child])
        tx.run("family.send", child.parent, child.run_id, place)
    line = family.line(tx, child.parent, shard) if place != shard else ()
    return Sent(place if row is None else row[0], row is None), line


def submit_made(tx: Tx, child: Submission, place: int, shard: int) -> Sent:
    """The same for a child whose id its parent made, and with the note it is on its way; one whose place is here is
    submitted.
    """
    sent, line = note_child(tx, child, place, shard)
    if sent.fresh and sent.shard == shard:
        enter(tx, [child])
    elif sent.fresh:
        send(tx, [(place, Submit((child,), line, (0,)))])
    return sent


# -- from other shards


def receive(tx: Tx, source: int, messages: Sequence[tuple[int, bytes]], shard: int) -> None:
    """Apply messages of another shard, in order, each once. Raises `RouteClosed`, and then none is applied."""
    for message in fresh(tx, source, messages):
        _apply(tx, source, message, shard)


def _apply(tx: Tx, source: int, message: Message, shard: int) -> None:
    match message:
        case Submit(submissions=submissions, line=line, times=times):
            come(tx, list(zip(submissions, times, strict=True)), line)
        case Ended(child=child, parent=parent, state=state, result=result, error=error):
            if tx.row("reads.seq", parent) is not None:
                tx.run("family.ended", parent, child, source, state, result, error)
                settle_parents(tx, [child])
        case Cancel(child=child, parent=parent):
            row = tx.row("pages.parent", child)
            if row is None:
                tx.run("chosen.cancel", child)  # it is still on its way, by another shard
            elif row[0] == parent:
                cancel(tx, [child])
        case Farewell(run_id=run_id, times=times):
            tx.run("chosen.farewell", run_id, times)


def _cancel_at_once(tx: Tx, submissions: Sequence[Submission]) -> None:
    """Those that were cancelled before they came."""
    children = [(run.run_id,) for run in submissions if run.parent is not None]
    gone = tx.match("chosen.cancelled", children)
    cancel(tx, [run_id for (run_id,) in gone])
