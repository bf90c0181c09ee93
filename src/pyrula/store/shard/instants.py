"""Instants: moments of a store's time and of the wall clock, as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from pyrula.model.gate import FOREVER
from pyrula.store.shard.tx import Tx

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def instant(tx: Tx, time: int | None) -> datetime | None:
    """A moment of the store's time (µs), on the wall clock as it stands; None for none, or one without
    end.
    """
    if time is None or time >= FOREVER:
        return None
    return wall_instant(time + tx.wall - tx.now)


def wall_instant(wall: int) -> datetime | None:
    """A moment of the wall clock (µs since 1970); None if no calendar has it."""
    try:
        return _EPOCH + timedelta(microseconds=wall)
    except OverflowError:
        return None
