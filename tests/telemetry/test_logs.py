"""Logs: one JSON object a line, written by a thread of their own."""

from __future__ import annotations

import io
import json
import logging
import threading

from pyrula.telemetry.logs import log_to

log = logging.getLogger("pyrula.tests")


def test_a_line_is_a_json_object_with_whatever_the_call_gave() -> None:
    stream = io.StringIO()
    stop = log_to(stream, as_json=True)
    log.info("cancel %s", "r-1", extra={"who": "alice", "run_id": "r-1\n\u202e", "at": object})
    try:
        raise ValueError("no money")
    except ValueError:
        log.exception("request failed", extra={"request_id": "q-1"})
    stop()
    first, second = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (first["event"], first["level"], first["logger"]) == ("cancel r-1", "info", "pyrula.tests")
    assert (first["who"], first["run_id"]) == ("alice", "r-1\n\u202e")
    assert first["time"].endswith("+00:00")
    assert second["request_id"] == "q-1" and "ValueError: no money" in second["exception"]


def test_a_slow_disk_holds_nobody_up() -> None:
    gate = threading.Event()

    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            gate.wait(20)
            return super().write(text)

    stream = Slow()
    stop = log_to(stream)
    for number in range(12_000):
        log.info("line %d", number, extra={"number": number})
    gate.set()
    stop()
    lines = stream.getvalue().splitlines()
    assert len(lines) < 12_000 and "lines were dropped" in lines[-1]
    assert lines[0].endswith("INFO pyrula.tests: line 0 number=0")


def test_nothing_is_left_behind() -> None:
    before = threading.active_count(), list(logging.getLogger().handlers)
    log_to(io.StringIO())()
    assert (threading.active_count(), list(logging.getLogger().handlers)) == before
