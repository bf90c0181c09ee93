"""Promised against measured, from what the bodies noted themselves. Pure: notes in, rows out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from pyrula.cli.demo.workflows import (
    AT_ONCE,
    BATCH,
    BATCH_SECONDS,
    BURST,
    PER_SECOND,
    QUIET_SECONDS,
    Note,
)
from pyrula.clock import SECOND

_LATE = 1.0
"""Seconds that a start may come late on a busy machine; none may come early."""


class Row(NamedTuple):
    """One promise. kept: whether what was measured keeps it."""

    promise: str
    promised: str
    measured: str
    kept: bool


class Body(NamedTuple):
    """One execution: from its own start to its own end, or to the end of its process."""

    note: Note
    start: int
    end: int


class Play(NamedTuple):
    """What was asked for. runs: ids of sync_account runs; killed: process → when; events: of each workflow,
    by key.
    """

    runs: Sequence[str]
    killed: Mapping[int, int]
    events: Mapping[str, Mapping[str, int]]


def judge(notes: Sequence[Note], play: Play) -> list[Row]:
    """A row for every promise of the demonstration."""
    executed = bodies(notes, play.killed)
    synced = [body for body in executed if body.note.workflow == "sync_account"]
    ended = {note.run_id for note in notes if note.what == "end"}
    lost = [run_id for run_id in play.runs if run_id not in ended]
    victims = {body.note.run_id for body in synced if body.end == play.killed.get(body.note.pid)}
    return [
        Row("every run finishes", f"{len(play.runs)}", f"{len(play.runs) - len(lost)}", not lost),
        Row(
            "runs of the killed worker finish elsewhere",
            f"{len(victims)}",
            f"{len(victims & ended)}",
            victims <= ended and bool(victims),
        ),
        *(_at_once(tenant, of_tenant) for tenant, of_tenant in _by_key(synced).items()),
        *(_rate(tenant, of_tenant) for tenant, of_tenant in _by_key(synced).items()),
        _two_bodies(executed),
        *_digests(executed, play.events["digest"]),
        *_rebuilds(executed, play.events["rebuild_index"]),
    ]


def bodies(notes: Sequence[Note], killed: Mapping[int, int]) -> list[Body]:
    """The executions, in the order of their starts; one that noted no end ended with its process."""
    found: list[Body] = []
    open_bodies: dict[tuple[str, int], Note] = {}
    last = max((note.at for note in notes), default=0)
    for note in sorted(notes, key=lambda each: each.at):
        at = (note.run_id, note.pid)
        if note.what == "start":
            open_bodies[at] = note
        elif (started := open_bodies.pop(at, None)) is not None:
            found.append(Body(started, started.at, note.at))
    found += [Body(note, note.at, killed.get(note.pid, last)) for note in open_bodies.values()]
    return sorted(found, key=lambda body: body.start)


def peak(executed: Iterable[Body]) -> int:
    """The most of them alive at one moment."""
    moments = sorted([(body.start, 1) for body in executed] + [(body.end, -1) for body in executed])
    alive = most = 0
    for _, change in moments:  # an end sorts before a start of the same moment
        alive += change
        most = max(most, alive)
    return most


def first_claims(executed: Iterable[Body]) -> list[int]:
    """When each attempt was first claimed, in store time: that takes the token, its recovery after a crash
    takes none.
    """
    claims: dict[tuple[str, int], int] = {}
    for body in executed:
        at = (body.note.run_id, body.note.attempt)
        claims[at] = min(claims.get(at, body.note.claimed_at), body.note.claimed_at)
    return sorted(claims.values())


def tightest_span(claims: Sequence[int], per_second: float, burst: int) -> tuple[int, float, float]:
    """(starts, seconds, allowed) of the span of claims that comes nearest to what the bucket allows, or is
    furthest over.
    """
    worst = (0, 0.0, float(burst))
    for first in range(len(claims)):
        for last in range(first, len(claims)):
            seconds = (claims[last] - claims[first]) / SECOND
            starts, allowed = last - first + 1, burst + per_second * seconds
            if starts - allowed > worst[0] - worst[2]:
                worst = (starts, seconds, allowed)
    return worst


def _by_key(executed: Iterable[Body]) -> dict[str, list[Body]]:
    found: defaultdict[str, list[Body]] = defaultdict(list)
    for body in executed:
        found[body.note.key].append(body)
    return dict(sorted(found.items()))


def _at_once(tenant: str, executed: list[Body]) -> Row:
    most = peak(executed)
    return Row(f"{tenant}: bodies at once", f"at most {AT_ONCE}", f"{most}", most <= AT_ONCE)


def _rate(tenant: str, executed: list[Body]) -> Row:
    starts, seconds, allowed = tightest_span(first_claims(executed), PER_SECOND, BURST)
    return Row(
        f"{tenant}: starts in any span of T seconds",
        f"at most {BURST} + {PER_SECOND}·T",
        f"{starts} in {seconds:.2f} s ({allowed:.1f} allowed)",
        starts <= allowed + 1e-9,
    )


def _two_bodies(executed: list[Body]) -> Row:
    by_run: defaultdict[str, list[Body]] = defaultdict(list)
    for body in executed:
        by_run[body.note.run_id].append(body)
    twice = sum(1 for of_run in by_run.values() if any(b.start < a.end for a, b in pairwise(of_run)))
    return Row("runs in two live bodies at once", "0", f"{twice}", twice == 0)


def _digests(executed: list[Body], sent: Mapping[str, int]) -> list[Row]:
    batches = _runs_of(executed, "digest")
    once, largest = _once(batches, sent), max((len(batch.note.events) for batch in batches), default=0)
    waits = [(batch.start - min(event["sent"] for event in batch.note.events)) / SECOND for batch in batches]
    longest = max(waits, default=0.0)
    return [
        Row("digest: events in exactly one run", f"{len(sent)}", f"{once}", once == len(sent)),
        Row("digest: events in one batch", f"at most {BATCH}", f"{largest}", 0 < largest <= BATCH),
        Row(
            "digest: first event of a batch waits",
            f"at most {BATCH_SECONDS:g} s (+{_LATE:g} s)",
            f"{longest:.2f} s",
            0 < longest <= BATCH_SECONDS + _LATE,
        ),
    ]


def _rebuilds(executed: list[Body], sent: Mapping[str, int]) -> list[Row]:
    batches = _runs_of(executed, "rebuild_index")
    once = _once(batches, sent)
    quiet = [(batch.start - max(event["sent"] for event in batch.note.events)) / SECOND for batch in batches]
    keys = {event.partition("/")[0] for event in sent}
    shortest, longest = min(quiet, default=0.0), max(quiet, default=0.0)
    return [
        Row("index: pushes in exactly one rebuild", f"{len(sent)}", f"{once}", once == len(sent)),
        Row(
            "index: rebuilds, one per burst of pushes",
            f"{len(keys)}",
            f"{len(batches)}",
            len(batches) == len(keys),
        ),
        Row(
            "index: quiet before a rebuild",
            f"{QUIET_SECONDS:g} s (+{_LATE:g} s)",
            f"{shortest:.2f} to {longest:.2f} s",
            shortest >= QUIET_SECONDS and longest <= QUIET_SECONDS + _LATE,
        ),
    ]


def _runs_of(executed: list[Body], workflow: str) -> list[Body]:
    """The first body of each run of a workflow."""
    first: dict[str, Body] = {}
    for body in executed:
        if body.note.workflow == workflow:
            first.setdefault(body.note.run_id, body)
    return list(first.values())


def _once(batches: list[Body], sent: Mapping[str, int]) -> int:
    """How many of the events sent are in exactly one run."""
    times: defaultdict[str, int] = defaultdict(int)
    for batch in batches:
        for event in batch.note.events:
            times[event["id"]] += 1
    return sum(1 for event in sent if times[event] == 1)
