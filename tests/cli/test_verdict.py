"""The demonstration's judge: it must see a broken promise."""

import pytest

from pyrula.cli.demo.verdict import Play, bodies, first_claims, judge, peak, tightest_span
from pyrula.cli.demo.workflows import Note

SECOND = 1_000_000


def note(
    what, run_id, at, *, key="whale", workflow="sync_account", pid=1, attempt=1, claimed_at=None, events=()
):
    claimed = int((at if claimed_at is None else claimed_at) * SECOND)
    return Note(what, workflow, run_id, key, attempt, claimed, int(at * SECOND), pid, list(events))


def kept_play():
    """A short play that keeps every promise: r2 was executing on the process that was killed at 2 s."""
    event = {"id": "ann/0", "sent": 0}
    push = {"id": "docs/0", "sent": 0}
    notes = [
        note("start", "r1", 0),
        note("end", "r1", 1),
        note("start", "r2", 1, pid=2),
        note("start", "r2", 4, claimed_at=4),
        note("end", "r2", 5),
        note("start", "d1", 3, workflow="digest", key="ann", events=[event]),
        note("end", "d1", 3, workflow="digest", key="ann"),
        note("start", "i1", 2, workflow="rebuild_index", key="docs", events=[push]),
        note("end", "i1", 2, workflow="rebuild_index", key="docs"),
    ]
    play = Play(["r1", "r2"], {2: 2 * SECOND}, {"digest": {"ann/0": 0}, "rebuild_index": {"docs/0": 0}})
    return notes, play


def broken(notes, play):
    return {row.promise for row in judge(notes, play) if not row.kept}


def test_a_play_that_keeps_every_promise_is_told_so():
    assert broken(*kept_play()) == set()


def test_a_third_body_of_a_tenant_at_once_is_seen():
    notes, play = kept_play()
    notes += [note(what, f"x{i}", at) for i in range(3) for what, at in (("start", 10), ("end", 11))]
    assert broken(notes, play) == {"whale: bodies at once"}


def test_one_start_more_than_the_bucket_allows_is_seen():
    notes, play = kept_play()
    for i in range(11):
        notes += [note("start", f"x{i}", 20 + i / 1000), note("end", f"x{i}", 20 + i / 1000)]
    assert broken(notes, play) == {"whale: starts in any span of T seconds"}


def test_a_run_that_never_ends_is_seen():
    notes, play = kept_play()
    assert "every run finishes" in broken(notes[:4] + notes[5:], play)


def test_a_run_in_two_bodies_at_once_is_seen():
    notes, play = kept_play()
    notes.append(note("start", "r1", 0.5, pid=3))
    notes.append(note("end", "r1", 0.9, pid=3))
    assert broken(notes, play) == {"runs in two live bodies at once"}


@pytest.mark.parametrize("run_id", ["d2"])
def test_an_event_in_two_runs_is_seen(run_id):
    notes, play = kept_play()
    events = [{"id": "ann/0", "sent": 2 * SECOND}]
    notes.append(note("start", run_id, 3, workflow="digest", key="ann", events=events))
    assert broken(notes, play) == {"digest: events in exactly one run"}


def test_an_early_rebuild_is_seen():
    notes, play = kept_play()
    push = {"id": "docs/0", "sent": 1_500_000}
    notes[7] = note("start", "i1", 2, workflow="rebuild_index", key="docs", events=[push])
    assert broken(notes, play) == {"index: quiet before a rebuild"}


def test_a_body_without_an_end_ended_with_its_process():
    executed = bodies(
        [note("start", "a", 1, pid=7), note("start", "b", 2), note("end", "b", 3)], {7: 2 * SECOND}
    )
    assert [(body.note.run_id, body.end) for body in executed] == [("a", 2 * SECOND), ("b", 3 * SECOND)]
    assert peak(executed) == 1, "one ends at the moment the other starts"


def test_a_recovery_takes_no_token_and_a_retry_takes_one():
    executed = bodies(
        [
            note("start", "a", 1, pid=7),
            note("start", "a", 5),
            note("end", "a", 6),
            note("start", "a", 8, attempt=2),
            note("end", "a", 9, attempt=2),
        ],
        {7: 2 * SECOND},
    )
    assert first_claims(executed) == [1 * SECOND, 8 * SECOND]


def test_the_tightest_span_is_the_one_that_comes_nearest_to_the_bucket():
    starts, seconds, allowed = tightest_span([0, 0, 0, 10 * SECOND], per_second=1, burst=3)
    assert (starts, seconds, allowed) == (3, 0.0, 3.0)
