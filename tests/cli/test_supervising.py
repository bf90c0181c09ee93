"""`pyrula worker --processes N`: real processes, killed and stopped."""

import contextlib
import os
import signal

import psutil
import pytest

from pyrula.cli.supervising import pause
from tests.cli.watching import notes_of, state, submit, within


def alive(ask, names):
    """The workers of these names that live."""
    rows = ask(lambda client: client.store.workers())
    return sorted(row["worker_id"] for row in rows if row["worker_id"] in names)


def processes_of(supervisor, count):
    found = psutil.Process(supervisor.pid).children()
    return found if len(found) == count else []


@pytest.fixture
def supervise(start):
    def supervising(*options, processes=2):
        return start("--processes", str(processes), "--worker-id", "w", *options)

    return supervising


def test_a_process_that_dies_is_started_anew_and_sigterm_stops_all_in_order(url, supervise, ask, tmp_path):
    supervisor = supervise("--lease-seconds", "2", "--grace", "10")
    within(30, lambda: alive(ask, {"w-1", "w-2"}) == ["w-1", "w-2"])
    first, second = within(5, lambda: processes_of(supervisor, 2))
    os.kill(first.pid, signal.SIGKILL)
    os.kill(second.pid, signal.SIGKILL)
    new = within(
        10, lambda: [each for each in processes_of(supervisor, 2) if each.pid not in (first.pid, second.pid)]
    )
    notes = tmp_path / "notes"
    run_id = submit(url, "slow", notes=str(notes), seconds=1.0)
    notes_of(notes, 1, within=30)
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(timeout=20) == 0
    assert state(url, run_id)[0] == "completed", "its body had the grace"
    assert not any(each.is_running() for each in new)
    log = (tmp_path / "worker.log").read_text()
    assert log.count("worker process 1 ended (SIGKILL); starting it anew") == 1
    assert "SIGTERM: stopping 2 worker processes" in log


def test_a_signal_to_all_counts_once_and_a_second_one_hands_back_at_once(url, supervise, tmp_path):
    notes = tmp_path / "notes"
    run_id = submit(url, "slow", notes=str(notes), seconds=60)
    supervisor = supervise("--grace", "50")
    notes_of(notes, 1, within=30)
    group = [supervisor, *within(30, lambda: processes_of(supervisor, 2))]
    for each in group:
        with contextlib.suppress(ProcessLookupError):  # one that was still starting has ended, perhaps
            os.kill(each.pid, signal.SIGINT)
    within(10, lambda: "stopping, bodies have 50 s" in (tmp_path / "worker.log").read_text())
    assert supervisor.poll() is None and state(url, run_id)[0] == "executing"
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(timeout=15) == 0
    assert state(url, run_id) == ("queued", [0])


def test_processes_whose_supervisor_was_killed_stop_by_themselves(url, supervise, ask, tmp_path):
    notes = tmp_path / "notes"
    submit(url, "slow", notes=str(notes), seconds=1.0)
    supervisor = supervise("--grace", "10")
    notes_of(notes, 1, within=30)
    orphans = within(30, lambda: processes_of(supervisor, 2))
    supervisor.kill()
    assert [line.split()[0] for line in notes_of(notes, 2)] == ["start", "end"]
    within(15, lambda: not any(each.is_running() for each in orphans))
    assert "the supervisor is gone: stopping, bodies have 10 s" in (tmp_path / "worker.log").read_text()


def test_a_command_that_can_not_work_is_told_once(start, tmp_path):
    supervisor = start("--processes", "3", "--lease-seconds", "-1")
    assert supervisor.wait(timeout=30) == 2
    log = (tmp_path / "worker.log").read_text()
    assert log.count("lease_seconds is -1") == 1
    assert "worker process 1 can't start: stopping" in log


def test_processes_do_not_share_a_store_in_memory(pyrula):
    ended = pyrula("worker", "tests.cli.shop:registry", "--processes", "2", "--store", "sqlite://")
    assert ended.code == 2
    assert "lives in one process's memory" in ended.err


def test_whoever_dies_early_again_and_again_is_started_less_and_less_often():
    assert [pause(early) for early in range(8)] == [0, 1, 2, 4, 8, 16, 30, 30]
