"""Outbox: what a shard has to tell others, written with what caused it. Each message arrives at least once, in order,
and is applied once: the receiver remembers the number of the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from pyrula.clock import SECOND
from pyrula.store.protocol import Submission
from pyrula.store.shard.tx import Tx

GRACE: Final = SECOND
"""For which who sent runs of chosen ids is left to bring them."""
_LOOKED_AT: Final = 1000


class Ancestor(NamedTuple):
    """One of the runs from which a child descends. shard: where it is."""

    run_id: str
    parent: str | None
    shard: int


class Submit(msgspec.Struct, frozen=True, tag=True):
    """Runs whose place is there. line: the ancestors of a child, its parent first. times: of chosen ids, how often
    the shard to which an id belongs has sent it there; 0: the id is its parent's making."""

    submissions: tuple[Submission, ...]
    line: tuple[Ancestor, ...] = ()
    times: tuple[int, ...] = ()


class Ended(msgspec.Struct, frozen=True, tag=True):
    """A child of a run there has ended."""

    child: str
    parent: str
    state: str
    result: bytes | None = None
    error: bytes | None = None


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """A run there is to be cancelled with its parent."""

    child: str
    parent: str


class Farewell(msgspec.Struct, frozen=True, tag=True):
    """The record of a run whose id belongs there is not kept any more."""

    run_id: str
    times: int


Message = Submit | Ended | Cancel | Farewell
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode


def send(tx: Tx, messages: Sequence[tuple[int, Message]]) -> None:
    """Have messages on their way, once this is committed. Under the shard's lock only: they are in order."""
    tx.many("outbox.send", [(shard, _encode(message), tx.now) for shard, message in messages])


def send_aside(tx: Tx, shard: int, message: Submit) -> int:
    """The same for runs of chosen ids; the message's number. Its sender brings them itself, in the order in which
    runs of several such shards were submitted; nobody else does within `GRACE`, nor does another message wait.
    """
    rows = tx.rows("outbox.send", aside(shard), _encode(message), tx.now)
    return int(rows[0][0])


def aside(shard: int) -> int:
    """The address of a shard for runs of chosen ids, and back."""
    return -1 - shard


def addressed(tx: Tx) -> list[tuple[int, int]]:
    """The addresses to which something is on its way, and for how long (µs) somebody else is to leave it alone."""
    return [
        (address, max(0, at + GRACE - tx.now) if address < 0 else 0)
        for address, at in tx.rows("outbox.addressed")
    ]


def head(tx: Tx, address: int, limit: int) -> list[tuple[int, bytes]]:
    """The first messages to an address, with their numbers."""
    return [(number, bytes(message)) for number, message in tx.rows("outbox.head", address, limit)]


def drop(tx: Tx, address: int, last: int) -> None:
    """Messages up to this one have arrived."""
    tx.run("outbox.drop", address, last)


def drop_some(tx: Tx, numbers: Sequence[int]) -> None:
    """These messages have arrived by other means."""
    tx.many("outbox.drop_one", [(number,) for number in numbers])


def fresh(tx: Tx, source: int, messages: Sequence[tuple[int, bytes]]) -> list[Message]:
    """Of messages of a shard (`aside`: of its runs of chosen ids) those that were not applied before; from now on
    they were.
    """
    row = tx.row("outbox.last", source)
    last = 0 if row is None else row[0]
    new = [(number, message) for number, message in messages if number > last]
    if new:
        tx.run("outbox.took", source, new[-1][0])
    return [_decode(message) for _, message in new]


def on_their_way(tx: Tx) -> Iterator[Message]:
    """Everything in the outbox."""
    after = 0
    while rows := tx.rows("outbox.all", after, _LOOKED_AT):
        yield from (_decode(message) for _, message in rows)
        after = rows[-1][0]
