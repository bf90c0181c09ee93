"""Turns on several shards: a worker asks those that have something for it, each by itself.

A shard that is slow or gone holds up nobody: what it answers late is handed out by the next turn, what was to be
handed in there waits, and it is asked again after a pause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from pyrula.clock import SECOND
from pyrula.errors import StoreUnavailable
from pyrula.model.lease import Lease
from pyrula.store.protocol import Claim, Handed, Signal, TurnRequest
from pyrula.store.sharded.courier import Courier
from pyrula.store.sharded.deadlocks import Deadlocks
from pyrula.store.sharded.finding import Finding
from pyrula.store.sharded.registering import part
from pyrula.store.sharded.seat import Life, Seat, share
from pyrula.store.sharded.shards import Shards, unavailable

_log = logging.getLogger("pyrula.store")
_PATIENCE_SECONDS: Final = 1.0
"""How long a turn waits for the slowest shard."""
_SET: Final = SECOND // 100
"""µs that the wall clock may drift from the other one before it was set."""


class Turns:
    """The turns of one life. wake: called when a shard answers that nobody waits for any more."""

    def __init__(
        self,
        shards: Shards,
        courier: Courier,
        finding: Finding,
        deadlocks: Deadlocks,
        life: Life,
        wake: Callable[[], None],
    ) -> None:
        self.life = life
        self._shards, self._courier, self._finding = shards, courier, finding
        self._deadlocks, self._wake = deadlocks, wake
        self._came: list[tuple[Seat, Handed]] = []
        self._wrong: BaseException | None = None
        self._asking: set[asyncio.Task[None]] = set()
        self._patient = False
        self._now = 0
        self._skew = 0

    async def take(self, request: TurnRequest) -> Handed:
        """One turn on every shard that may bring something. Raises when none can be asked."""
        life = self.life
        refused = life.hear_outcomes(request.outcomes)
        life.turn += 1
        self._look_at_clock()
        self._patient = True
        try:
            late = sum(len(handed.claims) for _, handed in self._came)
            room = request.wanted - late - sum(seat.reserved for seat in life.seats)
            await self._ask_all(room, request.limiters)
            await self._prove(request.limiters)
        finally:
            self._patient = False
        if self._wrong is not None:
            wrong, self._wrong = self._wrong, None
            self._give_back(request)
            raise wrong
        came, self._came = self._came, []
        if not came and not any(seat.lost and not seat.told for seat in life.seats):
            self._give_back(request)
            errors = [f"shard {seat.shard}: {seat.error}" for seat in life.seats if seat.error is not None]
            raise StoreUnavailable(f"no shard takes a turn now: {'; '.join(errors) or 'all are being asked'}")
        broken = await self._deadlocks.look()
        senders = {seat.shard for seat, _ in came} | ({broken} if broken is not None else set())
        brought = await self._courier.rounds(sorted(senders))
        return self._merged(refused, came, brought=brought)

    def _look_at_clock(self) -> None:
        """When the wall clock was set, every shard is to see it: what is due by the wall may be due now, and the time
        of a shard goes on from there.
        """
        skew = self._shards.clock.wall() - self._shards.clock.monotonic()
        if abs(skew - self._skew) > _SET:
            self._skew = skew
            for seat in self.life.seats:
                seat.news = True

    async def _ask_all(self, left: int, limiters: int) -> None:
        """Ask all that may bring something, then again those that had more than their share."""
        clock, life = self._shards.clock, self.life
        seats = [seat for seat in life.seats if seat.wants(clock.monotonic(), room=left > 0)]
        while seats:
            shares = share(max(0, left), seats, life.turn)
            before = len(self._came)
            await self._ask_some(seats, shares, limiters)
            got = {seat.shard: len(handed.claims) for seat, handed in self._came[before:]}
            left -= sum(got.values())
            seats = [
                seat
                for seat in seats
                if seat.shard in got and got[seat.shard] == shares[seat.shard] and seat.registered
            ]
            if left <= 0 or not any(shares[seat.shard] or left for seat in seats):
                return
            seats = [seat for seat in seats if not seat.idle]

    async def _prove(self, limiters: int) -> None:
        """Nobody had anything to say: one that is well is asked, so that a turn proves that a store is there."""
        now, seats = self._shards.clock.monotonic(), self.life.seats
        order = [seats[(self.life.turn + number) % len(seats)] for number in range(len(seats))]
        for seat in order:
            if seat.registered and not seat.asking and now >= seat.again_at and not self._came:
                await self._ask_some([seat], {seat.shard: 0}, limiters)

    async def _ask_some(self, seats: Sequence[Seat], shares: dict[int, int], limiters: int) -> None:
        asked = [asyncio.ensure_future(self._ask(seat, shares[seat.shard], limiters)) for seat in seats]
        self._asking.update(asked)
        for asking in asked:
            asking.add_done_callback(self._asking.discard)
        await asyncio.wait(asked, timeout=_PATIENCE_SECONDS)

    async def _ask(self, seat: Seat, wanted: int, limiters: int) -> None:
        """A turn on one shard, whenever it answers."""
        clock, incarnation = self._shards.clock, self.life.registration.incarnation
        seat.asking = True
        try:
            if not seat.registered:
                await self._take_seat(seat)
            asked = clock.monotonic()
            request = seat.request(incarnation, wanted, limiters)
            handed = await self._shards.ask(seat.shard, lambda store: store.turn(request))
        except BaseException as error:
            told = unavailable(seat.shard, error)
            if told is None:
                self._wrong = error
            elif seat.error is None:
                _log.warning("worker %s: %s", self.life.registration.worker_id, told)
            seat.failed(str(error), clock.monotonic())
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            seat.answered(request, handed, asked, clock.monotonic())
            if not handed.lost:
                seat.renewed = max(seat.renewed, asked - self.life.registration.lease // 2)
            for claim in handed.claims:
                self._finding.remember(claim.run_id, seat.shard)
            self._came.append((seat, handed))
        if not self._patient:
            self._wake()

    async def _take_seat(self, seat: Seat) -> None:
        """Register on a shard that was not there before, or has given this worker up. All its bodies there are over,
        so what it still has there goes back first.
        """
        here = self.life.registration
        store = await self._shards.up(seat.shard)
        if seat.tray:
            last = await store.turn(TurnRequest(incarnation=here.incarnation, outcomes=tuple(seat.tray)))
            seat.tray.clear()
            self._now = max(self._now, last.now)
        await store.leave(here.incarnation)
        asked = self._shards.clock.monotonic()
        await store.register(part(here, seat.shard, len(self.life.seats)))
        seat.take_seat(asked)

    def _give_back(self, request: TurnRequest) -> None:
        """The caller keeps the outcomes that it brought."""
        brought = {id(outcome) for _, outcome in request.outcomes}
        for seat in self.life.seats:
            seat.tray = [each for each in seat.tray if id(each[1]) not in brought]

    def _merged(self, refused: list[Lease], came: Sequence[tuple[Seat, Handed]], *, brought: bool) -> Handed:
        life, now = self.life, self._shards.clock.monotonic()
        claims = _still_held(came)
        signals = [signal for _, handed in came for signal in handed.signals]
        for seat in life.seats:
            if seat.lost and not seat.told:
                seat.told = True
                signals += [Signal(lease, True) for lease in seat.held]
        waits = [seat.next_in(now) for seat in life.seats if not seat.asking] + [
            self._courier.next_in(),
            self._deadlocks.next_in(),
        ]
        known = [wait for wait in waits if wait is not None]
        if brought:  # it came after the turn of the shard that it is for
            known.append(0)
        self._now = max([self._now, *(handed.now for _, handed in came)])
        changes = [handed.limiters for _, handed in came if handed.limiters is not None]
        return Handed(
            now=self._now,
            claims=claims,
            refused=(*refused, *(lease for _, handed in came for lease in handed.refused)),
            signals=tuple(signals),
            next_in=min(known) if known else None,
            lost=any(seat.lost for seat in life.seats) and not any(seat.registered for seat in life.seats),
            limiters=max(changes, default=None),
            nows={seat.shard: handed.now for seat, handed in came},
            waits=any(handed.waits for _, handed in came),
        )

    async def close(self) -> None:
        """Ask nothing more, and hand back what is held."""
        for asking in list(self._asking):
            asking.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        incarnation = self.life.registration.incarnation
        for seat in self.life.seats:
            if seat.tray and seat.registered:
                last = seat.request(incarnation, 0, 0)
                await self._shards.each(lambda store, last=last: store.turn(last), [seat.shard])  # type: ignore[misc]  # bound now
        _, unreached = await self._shards.each(lambda store: store.leave(incarnation))
        for shard, error in unreached:
            _log.warning(
                "shard %d was not told that a worker leaves; its leases there lapse: %s", shard, error
            )


def _still_held(came: Sequence[tuple[Seat, Handed]]) -> tuple[Claim, ...]:
    """What was handed out, but for what came after its seat was lost: nobody tells such a body to stop. It is not
    begun, and goes back when the seat is taken again.
    """
    for seat, handed in came:
        if seat.lost:
            seat.held.difference_update(claim.lease for claim in handed.claims)
    return tuple(claim for seat, handed in came for claim in handed.claims if claim.lease in seat.held)
