"""Seat: what one life of a worker has on one shard: its leases, outcomes to be handed in, when to ask again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pyrula.clock import SECOND
from pyrula.model.lease import Lease
from pyrula.model.outcome import Outcome
from pyrula.store.protocol import Handed, Registration, TurnRequest

_FIRST_RETRY: Final = SECOND // 20
_LONGEST_RETRY: Final = 5 * SECOND


@dataclass(slots=True)
class Seat:
    """One shard, for one incarnation. Instants are monotonic µs of this process.

    held: leases that it was handed and has not heard the end of. tray: outcomes on their way. due: when the shard
    has something to do by itself. idle: it had room when it last asked, and there was nothing more. lost: the shard
    has given it up, or could not be reached for too long: its bodies there are to stop, and once they have it
    registers again. told: they were told.
    """

    shard: int
    registered: bool = False
    held: set[Lease] = field(default_factory=set)
    tray: list[tuple[Lease, Outcome]] = field(default_factory=list)
    due: int | None = None
    idle: bool = False
    news: bool = True
    asking: bool = False
    reserved: int = 0
    renewed: int = 0
    lost: bool = False
    told: bool = False
    pause: int = 0
    again_at: int = 0
    error: str | None = None

    def wants(self, now: int, *, room: bool) -> bool:
        """Whether a turn on this shard may bring something."""
        if self.asking or now < self.again_at:
            return False
        if not self.registered:
            return not self.held
        due = self.due is not None and self.due <= now
        # A worker without room looks now and then whether its runs are to be cancelled.
        return (
            bool(self.tray) or self.news or due or (room and not self.idle) or (not room and bool(self.held))
        )

    def next_in(self, now: int) -> int | None:
        """µs until it wants a turn by itself."""
        if now < self.again_at:
            return self.again_at - now
        if self.due is None or not self.registered:
            return None
        return max(0, self.due - now)

    def request(self, incarnation: str, wanted: int, limiters: int) -> TurnRequest:
        """What it brings to its next turn, with which it is asking."""
        self.asking, self.news, self.reserved = True, False, wanted
        return TurnRequest(
            incarnation=incarnation, outcomes=tuple(self.tray), wanted=wanted, limiters=limiters
        )

    def answered(self, request: TurnRequest, handed: Handed, asked: int, now: int) -> None:
        """The shard took a turn."""
        self.asking, self.reserved = False, 0
        self.pause, self.again_at, self.error = 0, 0, None
        taken = {id(outcome) for _, outcome in request.outcomes}
        self.tray = [] if handed.lost else [each for each in self.tray if id(each[1]) not in taken]
        self.held.difference_update(lease for lease, _ in request.outcomes)
        self.held.update(claim.lease for claim in handed.claims)
        if handed.lost:
            self.lose()
            return
        self.due = None if handed.next_in is None else now + handed.next_in
        self.idle = len(handed.claims) < request.wanted and handed.next_in != 0

    def failed(self, error: str, now: int) -> None:
        """It could not be asked: its outcomes are brought again."""
        self.asking, self.reserved, self.idle = False, 0, False
        self.pause = min(2 * self.pause or _FIRST_RETRY, _LONGEST_RETRY)
        self.again_at, self.error = now + self.pause, error

    def lose(self) -> None:
        """Its leases there are over, or will be before they can be renewed. What ended before may still be taken."""
        if not self.lost:
            self.lost, self.told = True, False
            self.registered = False

    def take_seat(self, now: int) -> None:
        """It was registered there."""
        self.registered, self.lost, self.told = True, False, False
        self.idle, self.due, self.renewed = False, None, now
        self.pause, self.again_at, self.error = 0, 0, None


@dataclass(slots=True)
class Life:
    """One incarnation. turn: how many it has taken, for the seats to take turns in being first."""

    registration: Registration
    seats: list[Seat]
    turn: int = 0

    def serves(self, names: Sequence[str]) -> None:
        """Beside what it declares it serves these names: shards where it registers later are told so."""
        units = [name for name in names if name not in self.registration.declarations]
        self.registration = msgspec.structs.replace(self.registration, units=units)

    def hear_outcomes(self, outcomes: Sequence[tuple[Lease, Outcome]]) -> list[Lease]:
        """Take outcomes into the trays; answers those whose leases are over: what their bodies ended with after they
        were told to stop is no outcome.
        """
        refused = []
        for lease, outcome in outcomes:
            seat = self.seats[lease.shard]
            if seat.registered and lease in seat.held:
                seat.tray.append((lease, outcome))
            else:
                seat.held.discard(lease)
                refused.append(lease)
        return refused


def share(room: int, seats: Sequence[Seat], turn: int) -> dict[int, int]:
    """Room for so many runs, shared evenly; what is left over goes around."""
    if not seats:
        return {}
    each, over = divmod(room, len(seats))
    order = [seats[(turn + number) % len(seats)] for number in range(len(seats))]
    return {seat.shard: each + (number < over) for number, seat in enumerate(order)}
