"""Beats: a worker's leases on each shard are renewed by themselves, so one that is gone loses no others."""

from __future__ import annotations

import threading
from typing import Final, Literal

from pyrula.clock import SECOND
from pyrula.errors import StoreUnavailable
from pyrula.store.sharded.seat import Life, Seat
from pyrula.store.sharded.shards import Shards

_SHORTEST_SECONDS: Final = 0.5
Verdict = Literal["keep", "let go", "give up"]


def judge(now: int, renewed: int, lease: int, *, held: bool) -> Verdict:
    """What becomes of a seat that was not renewed at `now` (µs).

    At half of the lease its bodies are told to stop. If some are still there at three quarters the whole worker is
    given up, as one that cannot stop what it must.
    """
    age = now - renewed
    if age >= lease * 3 // 4 and held:
        return "give up"
    return "let go" if age >= lease // 2 else "keep"


class Beats:
    """The heartbeats of this process, from any thread."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._under_way: dict[tuple[str, int], threading.Thread] = {}

    def beat(self, life: Life) -> tuple[bool, bool]:
        """Renew on all shards at once. Answers whether the worker lives on, and whether it has news of seats lost.
        Raises `StoreUnavailable` when no shard could be asked.
        """
        answers: dict[int, bool | Exception] = {}
        seats = [seat for seat in life.seats if seat.registered]
        asked = self._shards.clock.monotonic()
        beating = [(seat, self._begin(life, seat, answers)) for seat in seats]
        patience = max(_SHORTEST_SECONDS, life.registration.lease / SECOND / 12)
        for _, thread in beating:
            thread.join(patience)
        news = False
        for seat in seats:
            answer = answers.get(seat.shard)
            if answer is True:
                seat.renewed = max(seat.renewed, asked)
            elif answer is False:
                seat.lose()
                news = True
        now = self._shards.clock.monotonic()
        for seat in life.seats:
            if seat.lost or (seat.registered and answers.get(seat.shard) is not True):
                verdict = judge(now, seat.renewed, life.registration.lease, held=bool(seat.held))
                if verdict == "give up":
                    return False, True
                if verdict == "let go" and not seat.lost:
                    seat.lose()
                    news = True
        if not any(seat.registered for seat in life.seats) and any(seat.lost for seat in life.seats):
            return False, True
        if not any(answer is True for answer in answers.values()):
            errors = [f"shard {shard}: {answer}" for shard, answer in answers.items()]
            raise StoreUnavailable(
                f"no shard took a heartbeat: {'; '.join(errors) or 'none answered in time'}"
            )
        return True, news

    def _begin(self, life: Life, seat: Seat, answers: dict[int, bool | Exception]) -> threading.Thread:
        """Beat in a thread of its own, unless the last beat there still goes on."""
        name = life.registration.incarnation, seat.shard
        going = self._under_way.get(name)
        if going is not None and going.is_alive():
            return going
        thread = self._under_way[name] = threading.Thread(
            target=self._one, args=(life, seat, answers), name=f"pyrula-beat-{seat.shard}", daemon=True
        )
        thread.start()
        return thread

    def _one(self, life: Life, seat: Seat, answers: dict[int, bool | Exception]) -> None:
        asked = self._shards.clock.monotonic()
        try:
            alive = self._shards.store(seat.shard).heartbeat(life.registration.incarnation)
        except Exception as error:  # whatever it is, the other shards' leases go on
            answers[seat.shard] = error
        else:
            answers[seat.shard] = alive
            if alive:
                seat.renewed = max(seat.renewed, asked)
