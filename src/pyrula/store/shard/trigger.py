"""Trigger: events gather in the buffer of their key until it fires."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pyrula.policies.collect import CollectStamp
from pyrula.policies.stamp import Stamped
from pyrula.store.protocol import TriggerEvent
from pyrula.store.shard.fire import Batch, fire, kept_text, stored, told_text
from pyrula.store.shard.tx import Tx

MAX_BATCH: Final = 4 << 20
"""Bytes of JSON that the events of one batch may take together; the batch that would pass it fires first."""

At = tuple[str, str]
"""A buffer's place: workflow and key (storable form)."""


@dataclass(slots=True)
class Buffer:
    """A buffer as this transaction leaves it. id: None until it is written; fresh: events not written yet;
    ids: (event_id, answered) of those of them that have one."""

    workflow: str
    key: str
    text: str
    stamped: Stamped
    opened_at: int
    due: int = 0
    id: int | None = None
    count: int = 0
    size: int = 0
    fresh: list[bytes] = field(default_factory=list)
    ids: list[tuple[str, int]] = field(default_factory=list)

    def full_for(self, size: int) -> bool:
        """One event of `size` bytes more would pass the cap."""
        return self.size + size + 1 > MAX_BATCH

    def add(self, event: TriggerEvent, now: int) -> bool:
        """Take an event in; True if that completes the batch."""
        self.fresh.append(event.payload)
        self.count += 1
        self.size += len(event.payload) + 1
        policy = self.stamped.stamp.trigger
        if isinstance(policy, CollectStamp):
            self.due = self.opened_at + policy.window_us
            return self.count >= policy.max_events
        assert policy is not None, "a buffer is opened by a workflow that declares a trigger"
        self.due = now + policy.window_us
        if policy.max_wait_us is not None:
            self.due = min(self.due, self.opened_at + policy.max_wait_us)
        return False


def trigger(tx: Tx, events: Sequence[TriggerEvent], shard: int) -> list[str | None]:
    """Buffer events, in order. Answers, per event, the id of the run that it completed the batch of, else
    None; an `event_id` that was given before, for the same workflow and key, counts once and gets the
    first answer.
    """
    known = _known(tx, events)
    buffers = _load(tx, events)
    answers: list[str | None] = []
    for event in events:
        at = event.workflow, event.key
        if event.event_id is not None:
            if (*at, event.event_id) in known:
                answers.append(known[*at, event.event_id])
                continue
            known[*at, event.event_id] = None
        buffer = buffers.get(at)
        if buffer is not None and (buffer.due <= tx.now or buffer.full_for(len(event.payload))):
            _fire(tx, buffer, shard)  # its time had come, or it has no room: this event opens the next one
            buffer = None
        if buffer is None:
            buffer = buffers[at] = Buffer(event.workflow, event.key, event.text, event.stamped, tx.now)
        complete = buffer.add(event, tx.now)
        if event.event_id is not None:
            buffer.ids.append((event.event_id, int(complete)))
        answer = _fire(tx, buffer, shard) if complete else None
        if complete:
            del buffers[at]
            if event.event_id is not None:
                known[*at, event.event_id] = answer
        answers.append(answer)
    _store(tx, [buffer for buffer in buffers.values() if buffer.fresh])
    return answers


def flush(tx: Tx, workflow: str, key: str, shard: int) -> str | None:
    """Fire a buffer now; the run's id, or None if nothing is buffered there."""
    row = tx.row("trigger.stored", workflow, key)
    return None if row is None else fire(tx, [stored(tx, row)], shard)[0][0]


def scope_of(workflow: str, key: str) -> str:
    """Where an event_id of a trigger is unique."""
    return msgspec.json.encode(["trigger", workflow, key]).decode()


def _known(tx: Tx, events: Sequence[TriggerEvent]) -> dict[tuple[str, str, str], str | None]:
    """The first answers to those event_ids that were given before."""
    asked = {
        (scope_of(event.workflow, event.key), event.event_id): (event.workflow, event.key)
        for event in events
        if event.event_id is not None
    }
    rows = tx.match("trigger.known", list(asked)) if asked else []
    return {(*asked[scope, event_id], event_id): run_id for scope, event_id, run_id in rows}


def _load(tx: Tx, events: Sequence[TriggerEvent]) -> dict[At, Buffer]:
    places = dict.fromkeys((event.workflow, event.key) for event in events)
    return {
        (workflow, key): Buffer(
            workflow, key, told_text(text), Stamped.decode(stamped), opened_at, due, id, count, size
        )
        for id, workflow, key, text, stamped, opened_at, due, count, size in tx.match(
            "trigger.load", list(places)
        )
    }


def _fire(tx: Tx, buffer: Buffer, shard: int) -> str:
    """Fire a buffer with what is written down of it and what is not."""
    before: Sequence[bytes] = ()
    if buffer.id is not None:
        before = [payload for (payload,) in tx.rows("fire.events", buffer.id)]
    batch = Batch(buffer.workflow, buffer.text, buffer.stamped, [*before, *buffer.fresh], buffer.id)
    run_id, seq = fire(tx, [batch], shard)[0]
    scope = scope_of(buffer.workflow, buffer.key)
    tx.many("trigger.remember", [(scope, event_id, None, seq, answered) for event_id, answered in buffer.ids])
    return run_id


def _store(tx: Tx, buffers: Sequence[Buffer]) -> None:
    """Write down what the buffers have taken in."""
    opened = [buffer for buffer in buffers if buffer.id is None]
    known = [buffer for buffer in buffers if buffer.id is not None]
    rows = [
        (b.workflow, b.key, kept_text(b.text), b.opened_at, b.due, b.count, b.size, b.stamped.encode())
        for b in opened
    ]
    numbers = {(workflow, key): id for id, workflow, key in tx.match("trigger.open", rows)}
    for buffer in opened:
        buffer.id = numbers[buffer.workflow, buffer.key]
    tx.many("trigger.grow", [(buffer.id, buffer.due, buffer.count, buffer.size) for buffer in known])
    tx.many(
        "trigger.event",
        [
            (buffer.id, buffer.count - len(buffer.fresh) + number, payload)
            for buffer in buffers
            for number, payload in enumerate(buffer.fresh)
        ],
    )
    tx.many(
        "trigger.remember",
        [
            (scope_of(buffer.workflow, buffer.key), event_id, buffer.id, None, answered)
            for buffer in buffers
            for event_id, answered in buffer.ids
        ],
    )
