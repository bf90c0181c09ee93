"""`pyrula worker` as a process: how it stops."""

import json
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.shop import registry
from tests.cli.watching import notes_of, state, submit, within


def test_sigterm_lets_bodies_end_within_the_grace(url, start, tmp_path):
    notes = tmp_path / "notes"
    run_id = submit(url, "slow", notes=str(notes), seconds=1.0)
    process = start("--grace", "10")
    notes_of(notes, 1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=8) == 0
    assert [line.split()[0] for line in notes_of(notes, 2)] == ["start", "end"]
    assert state(url, run_id)[0] == "completed"


def test_sigterm_hands_back_what_outlasts_the_grace_with_its_slot_free_at_once(url, start, tmp_path):
    notes = tmp_path / "notes"
    run_id = submit(url, "slow", notes=str(notes), seconds=60)
    process = start("--grace", "0.2", "--lease-seconds", "30", "--worker-id", "w1", "--log-json")
    notes_of(notes, 1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=8) == 0
    assert state(url, run_id) == ("queued", [0])
    said = [json.loads(line)["event"] for line in (tmp_path / "worker.log").read_text().splitlines()]
    assert said == [
        f"worker w1 serves {', '.join(sorted(each.name for each in registry))}",
        "SIGTERM: stopping, bodies have 0.2 s",
        f"stopping: handing back 1 executing ({run_id})",
    ]
    start("--grace", "0")
    assert notes_of(notes, 2)[1] == f"start {run_id}", "another worker need not wait for the lease"


def test_a_second_sigterm_hands_back_at_once(url, start, tmp_path):
    notes = tmp_path / "notes"
    run_id = submit(url, "slow", notes=str(notes), seconds=60)
    process = start("--grace", "50")
    notes_of(notes, 1)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=8) == 0
    assert state(url, run_id) == ("queued", [0])


def test_a_thread_that_can_not_be_stopped_ends_with_the_process(url, start, tmp_path):
    notes = tmp_path / "notes"
    run_id = submit(url, "stubborn", notes=str(notes))
    process = start("--grace", "0", "--lease-seconds", "2")
    notes_of(notes, 1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 70
    start("--lease-seconds", "2")
    assert notes_of(notes, 2)[1] == f"start {run_id}", "its lease lapses, and another worker takes it up"


def test_how_long_finished_runs_are_kept_is_taken_from_the_environment(url, start, pyrula, work, monkeypatch):
    submit(url, "sync", tenant="a")
    work()
    for days, kept in (("7", 1), ("0.000001", 0)):
        monkeypatch.setenv("PYRULA_RETENTION_DAYS", days)
        worker = start("--worker-id", f"kept-{days}")
        until = time.monotonic() + 20
        while f"kept-{days}" not in pyrula("limits", "get").out and time.monotonic() < until:
            time.sleep(0.05)  # its first turn sweeps
        while len(pyrula("runs", "--json").json()["runs"]) > kept and time.monotonic() < until:
            time.sleep(0.05)
        assert len(pyrula("runs", "--json").json()["runs"]) == kept
        worker.terminate()
        assert worker.wait(timeout=8) == 0


def test_its_traces_go_out_by_opentelemetry_when_asked(url, start, tmp_path, monkeypatch):
    traces = tmp_path / "traces"
    monkeypatch.setenv("TRACES", str(traces))
    submit(url, "sync", tenant="acme")
    process = start("--otel", "--grace", "5", app="tests.cli.traced_shop:registry")
    assert notes_of(traces, 1) == ["run sync"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0


@pytest.mark.parametrize(
    ("app", "said"), [("shop", "WARNING {}traces and figures, so"), ("traced_shop", "INFO {}figures, so")]
)
def test_what_opentelemetry_would_throw_away_is_told_at_the_start(start, tmp_path, monkeypatch, app, said):
    monkeypatch.setenv("TRACES", str(tmp_path / "traces"))
    process = start("--otel", app=f"tests.cli.{app}:registry")
    log = tmp_path / "worker.log"
    within(20, lambda: "serves" in log.read_text())
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0
    assert said.format("pyrula.worker: --otel: no provider is set for ") in log.read_text()


@pytest.mark.parametrize("logs", ["wait for a reader", "fail"])
def test_a_process_that_has_to_end_ends_though_its_logs_cannot_be_written(logs):
    stop_logs = {"wait for a reader": "threading.Event().wait", "fail": "lambda: 1 / 0"}[logs]
    code = (
        f"import threading; from pyrula.cli.working import _end_process; _end_process('stuck', {stop_logs})"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30, check=False)
    assert ended.returncode == 70
    assert (b"ending the process: stuck" in ended.stderr) == (logs == "fail")
