"""Fire: a buffer becomes a run. Every event it took is in exactly that run, for both are one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from pyrula import ids
from pyrula.policies.stamp import Stamped
from pyrula.store.protocol import Submission
from pyrula.store.shard.submit import submit
from pyrula.store.shard.tx import Tx

_MARK: Final = "\ufffe"
"""Begins a text that is kept as JSON: no character, so hardly any text's first, and one that has it is kept so, too."""


class Batch(NamedTuple):
    """What a buffer has gathered. buffer: its id, None if it was never written down; payloads: JSON, as they
    came.
    """

    workflow: str
    text: str
    stamped: Stamped
    payloads: Sequence[bytes]
    buffer: int | None = None


def fire(tx: Tx, batches: Sequence[Batch], shard: int) -> list[tuple[str, int]]:
    """Submit a run for each batch and drop its buffer; answers their run ids and seqs."""
    submissions = [
        Submission(
            workflow=batch.workflow,
            params=params_of(batch),
            stamped=batch.stamped,
            run_id=ids.run_id(tx.wall, shard),
        )
        for batch in batches
    ]
    run_ids = [submitted.run_id for submitted in submit(tx, submissions)]
    seqs: dict[str, int] = dict(tx.match("fire.seq", [(run_id,) for run_id in run_ids]))
    gone = [
        (batch.buffer, seqs[run_id])
        for batch, run_id in zip(batches, run_ids, strict=True)
        if batch.buffer is not None
    ]
    tx.many("fire.remember", gone)
    tx.many("fire.drop_events", [(buffer,) for buffer, _ in gone])
    tx.many("fire.drop", [(buffer,) for buffer, _ in gone])
    return [(run_id, seqs[run_id]) for run_id in run_ids]


def params_of(batch: Batch) -> bytes:
    """The params of a batch's run: its key as resolved, all events in the order of their arrival, and their
    count.
    """
    text = msgspec.json.encode(batch.text)
    return b'{"key":%b,"events":[%b],"count":%d}' % (text, b",".join(batch.payloads), len(batch.payloads))


def kept_text(text: str) -> str:
    """A buffer's key as a store keeps it: PostgreSQL has no text with a NUL, so that one is kept as JSON, marked."""
    return _MARK + msgspec.json.encode(text).decode() if "\0" in text or text.startswith(_MARK) else text


def told_text(kept: str) -> str:
    """The key that was kept."""
    return msgspec.json.decode(kept[len(_MARK) :], type=str) if kept.startswith(_MARK) else kept


def fire_due(tx: Tx, limit: int, shard: int) -> int:
    """Fire the buffers whose time has come, at most `limit` of them, the one due first first; how many."""
    due = tx.rows("fire.due", tx.now, limit)
    if due:
        fire(tx, [stored(tx, row) for row in due], shard)
    return len(due)


def stored(tx: Tx, row: tuple[int, str, str, bytes]) -> Batch:
    """The batch of a buffer that was written down. row: (id, workflow, text, stamped)."""
    buffer, workflow, text, stamped = row
    payloads = [payload for (payload,) in tx.rows("fire.events", buffer)]
    return Batch(workflow, told_text(text), Stamped.decode(stamped), payloads, buffer)
