"""Logs as one JSON object a line, by the standard library, written by a thread of their own."""

from __future__ import annotations

import logging
import queue
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from typing import Any, Final, TextIO

import msgspec

from pyrula.errors import expect
from pyrula.limiters.config import OsLimitable
from pyrula.limiters.events import Event, TaskCounter, WaitStarted, WaitStopped

_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_MOST: Final = 10_000
"""Lines that may wait to be written; more are dropped, and counted, rather than hold anything up."""
_LONG: Final = 1.0
"""Seconds for which a worker is held back, from which on it is worth a line."""
_limiters = logging.getLogger("pyrula.limiters")


class JsonLines(logging.Formatter):
    """time, level, logger, event, whatever the call gave as `extra`, and the traceback of an error."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line.update({name: value for name, value in vars(record).items() if name not in _OWN})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            line["exception"] = record.exc_text
        return msgspec.json.encode(line, enc_hook=str).decode(errors="replace")


class TextLines(logging.Formatter):
    """The same for people: the extras follow the message as name=value."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, and its traceback."""
        extras = " ".join(f"{name}={value!r}" for name, value in vars(record).items() if name not in _OWN)
        head, newline, rest = super().format(record).partition("\n")
        return f"{head} {extras}".rstrip() + newline + rest


class _Waiting(QueueHandler):
    """Hands records to the writing thread, as they are: formatting is that thread's work."""

    def __init__(self, lines: queue.Queue[Any]) -> None:
        super().__init__(lines)
        self.dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Fix the message, for its arguments may change until it is written."""
        record.msg, record.args = record.getMessage(), None
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Wait in line, unless it is too long."""
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1


class _Writing(QueueListener):
    """Writes what waits."""

    def enqueue_sentinel(self) -> None:
        """Tell it to end, after what waits: however long the line is."""
        self.queue.put(self._sentinel)  # type: ignore[attr-defined]  # the library's own mark


def log_to(
    stream: TextIO | None = None, *, as_json: bool = False, level: int = logging.INFO
) -> Callable[[], None]:
    """Have everything logged from here on written to `stream` (stderr); call what it answers to write the rest."""
    expect(
        "log_to: stream",
        stream,
        stream is None or hasattr(stream, "write"),
        "what can be written to, or None",
    )
    expect("log_to: as_json", as_json, isinstance(as_json, bool), "True or False")
    lines: queue.Queue[Any] = queue.Queue(_MOST)
    writer = logging.StreamHandler(stream or sys.stderr)
    writer.setFormatter(JsonLines() if as_json else TextLines())
    listener = _Writing(lines, writer)
    waiting = _Waiting(lines)
    root = logging.getLogger()
    root.addHandler(waiting)
    root.setLevel(level)
    listener.start()

    def stop() -> None:
        root.removeHandler(waiting)
        listener.stop()
        if waiting.dropped:
            record = logging.makeLogRecord({"name": "pyrula", "msg": f"{waiting.dropped} lines were dropped"})
            writer.handle(record)

    return stop


def log_limiter(event: Event) -> None:
    """A listener for `pyrula.limiters.hub`: a line where limits held a worker back for a second or more, and at level
    debug one for each event. A leaky bucket's waits are debug, too: it is there to make them.
    """
    level = logging.INFO if isinstance(event, WaitStopped) and _held_for(event) >= _LONG else logging.DEBUG
    if not _limiters.isEnabledFor(level):
        return
    text, about = _told(event)
    _limiters.log(level, text, extra={"limitable": event.limitable, **about})


def _told(event: Event) -> tuple[str, dict[str, Any]]:
    """What happened, and its numbers; a line has a level and a name of its own."""
    if isinstance(event, TaskCounter):
        numbers = {
            "frequency": event.frequency,
            "concurrency": event.concurrency,
            "window": event.time_window,
        }
        return "window ended", {"counter": f"{event.level} {event.name}", **numbers}
    whose = {"worker_id": event.worker_id, "cluster": event.cluster}
    if isinstance(event, WaitStarted):
        by = [_limit(each) for each in event.limited_by]
        return "held back", {**whose, "limited_by": by, "limiter_delay": event.limiter_delay}
    held = {_limit(each): seconds for each, seconds in event.limited_by.items()}
    return "no longer held back", {**whose, "limited_by": held}


def _limit(limit: tuple[str, OsLimitable]) -> str:
    level, limitable = limit
    return f"{level} {limitable if isinstance(limitable, str) else ' '.join(limitable)}"


def _held_for(event: WaitStopped) -> float:
    return max((held for (level, _), held in event.limited_by.items() if level != "poller"), default=0.0)
