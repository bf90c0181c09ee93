"""The gate: one counter of one key, and what is known about who waits at it."""

import msgspec

GateId = bytes
Stamp = int | tuple[int, int, int]
"""What a run was submitted under at one gate: a limit's `max`, or a rate's `(p, q, burst)`."""

WaitKey = tuple[int, int, int, bytes]
"""Place in a waiting line: (priority, virtual time, seq of the head, lane id), all as when the wait began."""

FOREVER: int = 2**62
"""µs. A pause until then has no end."""


class Share(msgspec.Struct, gc=False):
    """What a gate remembers of the workers that serve one set of workflows. Times are µs."""

    starts: int = 0  # through the gate, counted against those of the others
    missed: int = 0  # places left for them that they did not take, less those they took soon
    rests: int = 0  # until then nothing is left for them


class Rota(msgspec.Struct, gc=False):
    """Whose go it is at a gate where workers of different workflows wait. Sets of workflows go by their digest."""

    last: bytes = b""  # who took the last place
    since: int = 0  # a place is left for others since then …
    until: int = 0  # … and until then; 0: none is
    shares: dict[bytes, Share] = msgspec.field(default_factory=dict)


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
    rota: Rota | None = None  # kept while workers of different workflows wait here
