"""The rota: at a gate that workers of different workflows draw on, they take turns.

Virtual times of different sets of workflows can't be compared, so the gate counts the starts of each set while
another one waits there. A set that is ahead leaves what the others are behind, if one of their workers is alive and
has room: for a moment, since it may be stuck all the same. If nobody came, the place is taken, and nothing is left
for them for a while that grows with each miss.
"""

from collections.abc import Callable, Collection, Mapping

from pyrula.admission.rows import Rows
from pyrula.admission.rules import admits, places, room
from pyrula.model.gate import Gate, Rota, Share, Stamp, WaitKey

WINDOW = 100_000
"""µs that a place is left for others at first: another process looks at a file each 20,000, and the machine may be
busy."""
_DOUBLINGS = 2
"""How often the window doubles, for workers that are slow to come."""
_REST = 16
"""Windows for which nothing is left after one in which nobody came, doubling as the window does."""


class Rotas:
    """The rotas of one turn. rung: gets the workflows for which a place is left, whose workers are to be told."""

    def __init__(self, rows: Rows, now: int, rung: set[str]) -> None:
        self._rows = rows
        self._now = now
        self._rung = rung
        self.left = False  # a place was left for others
        self._me = rows.loader.served
        self._others: Mapping[bytes, tuple[Collection[str], int]] | None = None
        self._left: dict[bytes, tuple[int, Mapping[bytes, tuple[int, int]]]] = {}

    def withholds(self, gate: Gate, stamp: Stamp, priority: int, more: Mapping[str, WaitKey]) -> bool:
        """Whether a place that a run of this worker could have is left for others, until `gate.rota.until`.

        more: the best waiters, by workflow, of those that are about to be rung.
        """
        rota = gate.rota
        mine = None if rota is None else rota.shares.get(self._me)
        if rota is None or mine is None:
            return False
        rivals = self._rivals(gate, priority, more)
        owed = self._owed(rota, self._me, mine, priority, rivals)
        places_now = room(gate, stamp, self._now)
        if not owed or places_now > sum(owed.values()):
            return False
        if rota.until and rota.until <= self._now:
            stayed_away = self._stayed_away(rota, places_now, {other: rivals[other] for other in owed})
            self._missed(gate, rota, mine, stayed_away)
            owed = {other: n for other, n in owed.items() if other not in stayed_away}
            if places_now > sum(owed.values()):
                return False
        if not rota.until:
            self._open(gate, rota, owed)
        self.left = True
        self._left[gate.id] = places_now, {other: rivals[other] for other in owed}
        return True

    def _owed(
        self, rota: Rota, ahead: bytes, its: Share, priority: int, rivals: Mapping[bytes, tuple[int, int]]
    ) -> dict[bytes, int]:
        """How many places the set `ahead`, whose share is `its`, leaves to each rival at a run of this priority."""
        owed: dict[bytes, int] = {}
        for other, (rank, free) in rivals.items():
            share = rota.shares.get(other)
            if rank > priority or (share is not None and self._now < share.rests):
                continue
            lead = int(rota.last == ahead) + (0 if share is None else its.starts - share.starts)
            if rank < priority or lead > 0:
                owed[other] = free if rank < priority else min(lead, free)
        return owed

    def _stayed_away(
        self, rota: Rota, places_now: int, rivals: Mapping[bytes, tuple[int, int]]
    ) -> Collection[bytes]:
        """Of those to whom places were left, who is to blame: not those who left them to the others in turn."""
        guilty = set()
        for other, (rank, _) in rivals.items():
            its = rota.shares.get(other)
            theirs = {third: rival for third, rival in rivals.items() if third != other}
            if its is None or places_now > sum(self._owed(rota, other, its, rank, theirs).values()):
                guilty.add(other)
        return guilty or rivals

    def in_vain(self, gate: Gate, workflow: str, priority: int) -> bool:
        """Whether workers told to come for a run of this workflow would leave the free places to the same others as
        this worker does. They would only tell this one in turn, and so on for as long as those others do not come.
        """
        rota = gate.rota
        if rota is None or rota.until <= self._now or gate.id not in self._left:
            return False
        places_now, rivals = self._left[gate.id]
        sets = [other for other, (workflows, _) in self._alive().items() if workflow in workflows]
        for other in sets:
            its = rota.shares.get(other)
            theirs = {third: rival for third, rival in rivals.items() if third != other}
            if its is None or places_now > sum(self._owed(rota, other, its, priority, theirs).values()):
                return False
        return bool(sets)

    def started(self, gate: Gate, stamp: Stamp, waiting: Callable[[Gate], Collection[str]]) -> None:
        """A run of this worker took a place. waiting: tells the workflows that have lanes in the gate's lines."""
        if gate.rota is None:
            if all(map(self._rows.serves, gate.heralds)):
                return
            gate.rota = Rota()
        rota, me, alive = gate.rota, self._me, self._alive()
        rota.shares = {each: share for each, share in rota.shares.items() if each == me or each in alive}
        mine = rota.shares.setdefault(
            me, Share(max((each.starts for each in rota.shares.values()), default=0))
        )
        theirs = {name for name in (*gate.heralds, *waiting(gate)) if not self._rows.serves(name)}
        active = {
            other
            for other, (workflows, free) in alive.items()
            if free > 0
            and not theirs.isdisjoint(workflows)
            and self._now >= rota.shares.setdefault(other, Share(mine.starts)).rests
        }
        mine.starts += 1
        self._left.pop(gate.id, None)
        if rota.until and rota.last != me:
            self._came(rota, mine)
        caught_up = rota.last != me and all(share.starts <= mine.starts for share in rota.shares.values())
        rota.last = me
        self._even_out(rota, mine, active, places(gate, stamp))
        if caught_up or not active or not admits(gate, stamp, self._now):
            self._close(gate, rota)

    def _even_out(self, rota: Rota, mine: Share, active: Collection[bytes], most: int) -> None:
        """Who could not have gone saves up no credit, and nobody more than there are places."""
        for other, share in rota.shares.items():
            share.starts = max(share.starts, mine.starts - most if other in active else mine.starts)
        least = min(share.starts for share in rota.shares.values())
        for share in rota.shares.values():
            share.starts -= least

    def drop(self, gate: Gate, waiting: Collection[str]) -> None:
        """Forget the rota of a gate where nobody is left that other workers serve. waiting: workflows in its
        lines."""
        if all(map(self._rows.serves, waiting)) and all(map(self._rows.serves, gate.heralds)):
            gate.rota = None

    def _alive(self) -> Mapping[bytes, tuple[Collection[str], int]]:
        if self._others is None:
            self._others = self._rows.loader.others()
        return self._others

    def _rivals(self, gate: Gate, priority: int, more: Mapping[str, WaitKey]) -> dict[bytes, tuple[int, int]]:
        """Sets whose workers have room for a run of no lower priority that is rung here: the best priority of those,
        and for how many they have room."""
        waiters = [*gate.heralds.items(), *more.items()]
        theirs = [
            (workflow, key[0])
            for workflow, key in waiters
            if key[0] <= priority and not self._rows.serves(workflow)
        ]
        found: dict[bytes, tuple[int, int]] = {}
        for other, (workflows, free) in self._alive().items() if theirs else ():
            best = min((rank for workflow, rank in theirs if workflow in workflows), default=None)
            if best is not None and free > 0:
                found[other] = (best, free)
        return found

    def _open(self, gate: Gate, rota: Rota, owed: Collection[bytes]) -> None:
        """Begin to leave a place, and have those be told whom it is for."""
        missed = max(share.missed if (share := rota.shares.get(other)) else 0 for other in owed)
        rota.since, rota.until = self._now, self._now + _window(missed)
        self._rows.changed_gates.add(gate.id)
        for other in owed:
            workflows = self._alive()[other][0]
            self._rung.update(workflow for workflow in gate.heralds if workflow in workflows)

    def _close(self, gate: Gate, rota: Rota) -> None:
        if rota.until:
            rota.until = 0
            self._rows.mark(gate)
            self._rows.changed_gates.add(gate.id)

    def _missed(self, gate: Gate, rota: Rota, mine: Share, owed: Collection[bytes]) -> None:
        """Nobody came. They get no place left for a while; what they were behind is forgotten."""
        for other in owed:
            share = rota.shares.setdefault(other, Share())
            share.rests = self._now + (_REST * _window(share.missed) << min(share.missed, _DOUBLINGS))
            share.missed, share.starts = share.missed + 1, mine.starts
        self._close(gate, rota)

    def _came(self, rota: Rota, mine: Share) -> None:
        """This worker took what was left for it. A longer window stays, unless it came very soon: what is slow now (a
        commit, a busy machine) will be so again. But who takes really long twice is not waited for each time."""
        late = self._now - rota.since
        if late > 2 * WINDOW:
            if mine.missed:
                mine.rests = self._now + _REST * late
            mine.missed += 1
        elif 32 * late < _window(mine.missed):
            mine.missed = max(0, min(mine.missed, _DOUBLINGS) - 1)


def _window(missed: int) -> int:
    return WINDOW << min(missed, _DOUBLINGS)
