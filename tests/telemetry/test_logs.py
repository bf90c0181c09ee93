"""Logs: one JSON object a line, written by a thread of their own."""

from __future__ import annotations

import io
import json
import logging
import threading

from pyrula.limiters import PollRate
from pyrula.telemetry.logs import log_limiter, log_to
from tests.limiters.support import made_hub

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


def test_a_worker_that_was_held_back_for_a_second_is_worth_a_line() -> None:
    stream, (hub, clock) = io.StringIO(), made_hub()
    stop = log_to(stream, as_json=True)
    hub.listen(log_limiter)
    held = hub.worker("w1", "shop", limits={"worker": {"workflow": (1, None)}})
    spaced = hub.worker("w2", "shop", task_poller_limiter=PollRate(10, 60))
    for since, until in ((0, 0.5), (10, 13.5)):
        clock.to(since)
        held.begin("workflow")
        held.reserve("workflow")  # held back …
        spaced.reserve("workflow")
        spaced.reserve("workflow")  # … and this one by its bucket, which is there to do that
        clock.to(until)
        held.end("workflow")
        assert held.reserve("workflow") == 1
        held.polled("workflow", 1, 0)
    clock.to(100)
    assert spaced.reserve("workflow") == 1
    stop()
    (line,) = [json.loads(text) for text in stream.getvalue().splitlines()]
    assert (line["logger"], line["level"], line["event"]) == (
        "pyrula.limiters",
        "info",
        "no longer held back",
    )
    assert (line["worker_id"], line["cluster"], line["limitable"]) == ("w1", "shop", "workflow")
    assert line["limited_by"] == {"worker workflow": 3.5}


def test_at_level_debug_every_event_of_a_limiter_is_a_line() -> None:
    stream, (hub, clock) = io.StringIO(), made_hub()
    stop = log_to(stream, as_json=True, level=logging.DEBUG)
    hub.listen(log_limiter)
    limiter = hub.worker("w1", limits={"os": {("disk", "/"): 1}}, limiter_time_windows={"workflow": 10})
    limiter.reserve("workflow")
    clock.to(10)
    hub.tick()
    stop()
    told = [json.loads(text) for text in stream.getvalue().splitlines()]
    assert [line["event"] for line in told if line["limitable"] == "workflow"] == [
        "held back",
        "window ended",
    ]
    held, ended = [line for line in told if line["limitable"] == "workflow"]
    assert held["limited_by"] == ["os disk /"] and held["limiter_delay"] == 0.5
    assert (ended["counter"], ended["frequency"], ended["window"]) == ("worker w1", 0, 10.0)
