"""The gate: one counter of one key, and what is known about who waits at it."""

import msgspec

GateId = bytes
Stamp = int | tuple[int, int, int]
"""What a run was submitted under at one gate: a limit's `max`, or a rate's `(p, q, burst)`."""

WaitKey = tuple[int, int, int, bytes]
"""Place in a waiting line: (priority, virtual time, seq of the head, lane id), all as when the wait began."""

FOREVER: int = 2**62
"""µs. A pause until then has no end."""


class Gate(msgspec.Struct, gc=False):
    """A working copy of one gate's row, changed only by the turn that loaded it. Times are µs."""

    id: GateId
    kind: str  # "limit" or "rate"
    in_use: int = 0  # limit: slots taken
    debt: int = 0  # rate: units owed since `at`, in units of `q` (policies/tokens.py)
    at: int = 0
    q: int = 1
    override: Stamp | None = None  # what holds instead of every run's own stamp, while an operator says so
    paused_until: int = 0  # 0: not paused
    dirty: bool = False  # a waiter may be able to go: look before the next pick
    wake_at: int | None = None  # when waiters may go for the mere passing of time
    waiting: int = 0  # lanes waiting here
    heralds: dict[str, WaitKey] = msgspec.field(
        default_factory=dict
    )  # workflow -> the ready lane rung for it
