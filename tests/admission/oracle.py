"""The rules of admission said as plainly as can be: count everything, scan everything, fractions for tokens.

It shares nothing with the floor but the nouns: it counts slots by who executes, and keeps its own buckets.
"""

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

from pyrula.model.gate import Gate
from pyrula.model.lane import Head, Lane

MICRO = 10**6
HAIR = Fraction(1, 10**9)  # of a token: what rounding up to whole units and µs may hold back


@dataclass
class Bucket:
    debt: Fraction = Fraction(0)
    at: int = 0
    taken: list[tuple[int, tuple[int, int, int]]] = field(default_factory=list)

    def owed(self, rate, now):
        return max(Fraction(0), self.debt - Fraction(rate[0] * (now - self.at), rate[1] * MICRO))

    def has_token(self, rate, now, hair=Fraction(0)):
        return self.owed(rate, now) + 1 + hair <= rate[2]

    def take(self, rate, now):
        self.debt, self.at = self.owed(rate, now) + 1, now
        self.taken.append((now, rate))


@dataclass
class Oracle:
    lanes: dict[bytes, Lane] = field(default_factory=dict)
    queues: dict[tuple[bytes, bool], dict[int, Head]] = field(default_factory=dict)
    executing: dict[int, tuple[bytes, ...]] = field(default_factory=dict)  # seq -> gates of its slots
    buckets: dict[bytes, Bucket] = field(default_factory=dict)
    overrides: dict[bytes, object] = field(default_factory=dict)
    pauses: dict[bytes, int] = field(default_factory=dict)
    streaks: Counter = field(default_factory=Counter)

    def in_use(self, gate):
        return sum(gate in slots for slots in self.executing.values())

    def passes(self, lane, head, resumed, now, hair=Fraction(0)):
        for gate, stamp in zip(lane.gates, head.numbers, strict=True):
            if resumed and not isinstance(stamp, int):
                continue
            if now < self.pauses.get(gate, 0):
                return False
            number = self.overrides.get(gate, stamp)
            if isinstance(number, int):
                if self.in_use(gate) >= number:
                    return False
            elif not self.buckets.setdefault(gate, Bucket()).has_token(number, now, hair):
                return False
        return True

    def first(self, lane, resumed):
        queue = self.queues.get((lane.id, resumed))
        return queue[min(queue)] if queue else None

    def startable(self, lane, now, hair=Fraction(0)):
        """The lane's head decides for it: a resumed one, if it has any."""
        back = self.first(lane, True)
        head = back or self.first(lane, False)
        return head is not None and self.passes(lane, head, back is not None, now, hair)

    def check_and_start(self, start, now):
        """Hold one start against the rules, then count it."""
        lane = self.lanes[start.lane_id]
        head = self.first(lane, start.resumed)
        assert head is not None and head.seq == start.seq, "alike runs start in order of submission"
        assert self.passes(lane, head, start.resumed, now), "a gate was overrun"
        assert start.gates == tuple(
            g for g, s in zip(lane.gates, head.numbers, strict=True) if isinstance(s, int)
        )
        back, fresh = self.first(lane, True), self.first(lane, False)
        if back and fresh:
            if start.resumed:
                ready_too = self.passes(lane, fresh, False, now, HAIR)
                assert not (self.streaks[lane.id] >= 3 and ready_too), "a fourth resumed run in a row"
            else:
                assert self.streaks[lane.id] >= 3, "a fresh run went before its turn"
        del self.queues[lane.id, start.resumed][start.seq]
        self.streaks[lane.id] = self.streaks[lane.id] + 1 if start.resumed and fresh else 0
        self.executing[start.seq] = start.gates
        if not start.resumed:
            for gate, stamp in zip(lane.gates, head.numbers, strict=True):
                number = self.overrides.get(gate, stamp)
                if not isinstance(stamp, int):
                    self.buckets.setdefault(gate, Bucket()).take(number, now)


def check_spans(bucket: Bucket) -> None:
    """No span holds one start more than burst + rate * T, where all its starts went by one rate."""
    taken = bucket.taken
    for first in range(len(taken)):
        begin, rate = taken[first]
        for n, (end, other) in enumerate(taken[first:], 1):
            if other != rate:
                break
            assert n <= rate[2] + Fraction(rate[0] * (end - begin), rate[1] * MICRO), (
                "a span got one too many"
            )


def audit(rows, now) -> None:
    """What must hold of stored rows between turns, so that no wake-up is lost."""
    from pyrula.admission import admits, opens_at

    waiting = Counter()
    ready = Counter()
    for lane in rows.lanes.values():
        queued = bool(rows.queues.get((lane.id, True))) or bool(rows.queues.get((lane.id, False)))
        assert queued == (lane.state != "empty"), "a lane is empty iff it has no runs"
        ready[lane.unit] += lane.state == "ready"
        if lane.state != "waiting":
            continue
        waiting[lane.gate] += 1
        gate: Gate = rows.gates[lane.gate]
        if gate.dirty:
            continue
        if admits(gate, lane.wait_stamp, now):
            herald = gate.heralds.get(lane.workflow)
            left = (
                now if gate.rota is None else max(now, gate.rota.until)
            )  # its room is left for others until then
            woken = gate.wake_at is not None and gate.wake_at <= left
            assert woken or (herald is not None and herald <= lane.wait_key), (
                "room, and nobody is rung for it"
            )
        else:
            opens = opens_at(gate, lane.wait_stamp, now)
            assert opens is None or (gate.wake_at is not None and gate.wake_at <= opens), "no alarm is set"
    for gate in rows.gates.values():
        assert gate.waiting == waiting[gate.id], "waiters are miscounted"
        for workflow, (_, _, _, lane_id) in gate.heralds.items():
            herald = rows.lanes[lane_id]
            assert (herald.state, herald.gate, herald.workflow) == ("ready", gate.id, workflow), (
                "a false herald"
            )
    for unit in rows.units.values():
        assert unit.ready == ready[unit.id], "ready lanes are miscounted"
