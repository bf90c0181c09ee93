"""Each example runs, and prints what it says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from pyrula.workflows import default_registry

EXAMPLES = Path(__file__).parents[2] / "examples"
SHOWS = {
    "limit": ["2 of 2 in use, by a1, a2", "3 s  a3 begins"],
    "rate": ["{0.0: 10, 0.2: 1, 0.4: 1, 0.6: 1}", "10 of 10 tokens"],
    "collect": [
        "event 49 completes",
        "0 s  u1 gets one mail about 50 events",
        "60 s  u1 gets one mail about 1 ",
    ],
    "debounce": ["5 s  quiet.md: 1 changes", "60 s  busy.md: 20 changes", "92 s  busy.md: 10 changes"],
    "fairness": ["{'free': 5, 'new': 1, 'paying': 15}"],
    "retry": ["1 s  attempt 2, ticket 7: timeout", "33 s  attempt 3, ticket 7: 200"],
    "schedule": ["Mon 08:00 UTC  report, run morning@2026-01-05T08:00:00Z", "30 runs of clean_up"],
    "http_app": [],  # it only declares; tests/web asks for what `pyrula serve` makes of it
    "whole": ["ann paid 1350, parcel P1", "parked [1]", "ann: refunded", "[]"],
}
ELSEWHERE = {
    "kafka_orders": "tests/kafka/test_example.py",
    "limiters": "tests/limiters/test_example.py",
    "temporal_worker": "tests/temporal/test_example.py",
}
"""Examples that need a server or another process, and where they are run."""


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an example declares is its own."""
    monkeypatch.setattr(default_registry, "_workflows", {})


@pytest.mark.parametrize("example", SHOWS)
def test_an_example_runs_and_shows_what_it_says(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{example}.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert [line for line in SHOWS[example] if line not in shown] == []


def test_every_example_is_run_somewhere() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == SHOWS.keys() | ELSEWHERE.keys()
