"""Which runs were open when last looked at: the next look reads those that ended since, and not all of them.

Runs end under the shard's lock, one commit after the other, each at the store's time of its commit. So what ends after
a look has ended no earlier than the last commit which that look saw.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from pyrula.clock import SECOND
from pyrula.store.postgres.connection import PostgresTx
from pyrula.store.shard import reads
from pyrula.store.shard.tx import Tx

Ending = tuple[str, bytes | None]
_MOST: Final = 65_536
"""Runs that are remembered."""
_FRESH: Final = SECOND
"""How old a look may be: whoever slept longer may find a run swept by a process that keeps ended ones for less."""
_SPARE: Final = 64
"""Runs of others, ended meanwhile, that are passed over as well."""


class Ends:
    """Answers as `reads.results`, in one thread. retention: how long this process keeps runs that have ended."""

    def __init__(self, retention: int) -> None:
        self._fresh = min(_FRESH, retention // 2)
        self._open: dict[str, int] = {}  # a time from which on it has not ended, as far as was seen

    def results(self, tx: Tx, run_ids: Sequence[str]) -> list[Ending | None]:
        """Per id: (state, JSON of its result or error), the state being "open" until it has ended; None: not there."""
        assert isinstance(tx, PostgresTx)
        seen = tx.committed
        known = {
            run_id: since
            for run_id in run_ids
            if (since := self._open.get(run_id)) is not None and since >= seen - self._fresh
        }
        found = self._since(tx, min(known.values()), known) if known else {}
        unknown = [run_id for run_id in run_ids if run_id not in known]
        if unknown:
            found |= dict(zip(unknown, reads.results(tx, unknown), strict=True))
        answers = [found.get(run_id, reads.OPEN) for run_id in run_ids]
        if len(self._open) > _MOST:  # whoever waited for them has gone
            self._open.clear()
        self._open.update(dict.fromkeys(run_ids, seen))
        for run_id, answer in zip(run_ids, answers, strict=True):
            if answer is not reads.OPEN:
                self._open.pop(run_id, None)
        return answers

    def _since(self, tx: Tx, since: int, run_ids: Collection[str]) -> dict[str, Ending | None]:
        """What those of these runs, open at that time, have ended with. If many others have, each is looked at."""
        limit = len(run_ids) + _SPARE
        rows = tx.rows("reads.ended_since", since, limit)
        ended: dict[str, Ending | None] = {
            run_id: (state, data) for run_id, state, small, data in rows if small
        }
        look = [row[0] for row in rows if not row[2] and row[0] in run_ids]
        if len(rows) == limit:
            look = list(run_ids)
        if look:
            ended |= dict(zip(look, reads.results(tx, look), strict=True))
        return ended
