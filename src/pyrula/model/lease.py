"""The right to execute one run, until its worker's heartbeat lapses."""

from __future__ import annotations

from typing import NamedTuple


class Lease(NamedTuple):
    """seq: the run's number in its shard; epoch: the number of the turn that handed it out; shard: where."""

    seq: int
    epoch: int
    shard: int = 0
