"""Aside: a run over whose log the code of one worker could not be replayed goes to workers whose code is another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyrula.clock import SECOND
from pyrula.store.shard.tx import Tx

_EVERY: Final = 30 * SECOND
_MOST: Final = 64
_ALL: Final = 1 << 60


@dataclass(slots=True)
class Versions:
    """Of this process's workers, by incarnation: the code of each workflow that they serve, and when each looks again
    for runs that were set aside. While two versions live, the one may set aside what the other began.
    """

    codes: dict[str, Mapping[str, str]] = field(default_factory=dict)
    due: dict[str, int] = field(default_factory=dict)

    def forget(self, incarnation: str) -> None:
        """The worker is gone."""
        self.codes.pop(incarnation, None)
        self.due.pop(incarnation, None)


def look(tx: Tx, incarnation: str, versions: Versions) -> None:
    """Now and then, have runs taken up that other code has set aside: some of them, as all may be in vain."""
    if tx.now >= versions.due.get(incarnation, 0):
        versions.due[incarnation] = tx.now + _EVERY
        take_up(tx, versions.codes.get(incarnation, {}), _MOST)


def take_up(tx: Tx, codes: Mapping[str, str], most: int = _ALL) -> None:
    """Take up at most so many runs of each workflow that were set aside by other code than this."""
    runs = tx.match("aside.take_up", [(workflow, code, most) for workflow, code in codes.items()])
    lanes = tx.match("handin.queue", [(seq, 1) for (seq,) in runs])
    tx.many("submit.bell", list({(lane,) for (lane,) in lanes}))
