"""Who sleeps, and who is to be woken: a NOTIFY only after the commit, only if somebody sleeps, and for one of them.
Runs that a turn found for workers of other workflows are told to some of those."""

from __future__ import annotations

from typing import Final

from pyrula.store.postgres.connection import Connection, PostgresTx, Touched
from pyrula.store.postgres.listener import GLANCE
from pyrula.store.protocol import Handed, TurnRequest
from pyrula.store.shard.admit import Hall
from pyrula.store.shard.drain import Broom
from pyrula.store.shard.tx import Tx

WORK: Final = "work"
"""What a process is told that is to look for work."""
END: Final = "end"
"""What a process is told that waits for runs to end."""
_WORKER, _CLIENT = 1, 0
_WORK: Final = frozenset(
    {
        "submit.queue",
        "handin.queue",
        "submit.bell",
        "submit.timer",
        "submit.timer_beside",
        "submit.wall_timer",
        "submit.wall_timer_beside",
        "trigger.open",
        "trigger.grow",
        "schedule.put",
        "schedule.next",
        "outbox.send",
        "steer.set",
        "steer.remove",
        "steer.dirty",
        "steer.dirty_key",
        "finish.free",
    }
)
"""Blocks that leave work for a worker, or make something due."""
_RUNG: Final = "rung "
"""Begins what names a workflow whose workers are to be told."""
_LOOKED_AT: Final = "wake.looked_at"
_LEFT_OVER: Final = "a turn had more than its worker has room for"


class Sleep:
    """What this store object knows of its own sleep. name: ends the name of its channel."""

    def __init__(self, name: str, channel: str) -> None:
        self._name, self._channel = name, channel
        self.here: set[str] = set()
        """Incarnations of this object's workers."""
        self.waits = False
        """A client of it has asked to be told of runs that end."""
        self._asleep = False  # it is written down, with the connection that listens now
        self._is_written = False  # it is written down, maybe with one that is gone
        self._lies_down = False  # a turn has written it down and is not committed yet

    @property
    def channels(self) -> tuple[str, str]:
        """The one for everybody, and its own."""
        return self._channel, f"{self._channel}_{self._name}"

    # -- its own sleep

    def may_look(self, pid: int | None) -> bool:
        """Whether a look without the lock is enough to go on sleeping: it is told of work, or (pid: None) nobody
        listens, and it looks all the time."""
        return self._asleep or pid is None

    def after_turn(self, tx: Tx, request: TurnRequest, handed: Handed, pid: int | None) -> None:
        """Have it known whether this worker has room, within the turn."""
        has_room = len(handed.claims) < request.wanted
        if isinstance(tx, PostgresTx):
            if not has_room:
                tx.touched.add(_LEFT_OVER)
            elif tx.touched & _WORK:  # it was looked at by itself: no news, but to be kept
                tx.touched -= _WORK
                tx.touched.add(_LOOKED_AT)
            tx.touched |= {_RUNG + workflow for workflow in handed.rung}
        sleeps = has_room and handed.next_in != 0 and not handed.lost
        if sleeps and pid is not None and not self._asleep:
            tx.run("wake.sleep", self._name, _WORKER, pid, tx.now)
            self._is_written = self._lies_down = True
        elif self._is_written and not has_room:
            self.rise(tx)

    def rise(self, tx: Tx) -> None:
        """No worker of it wants to be woken, until the next one finds nothing to do."""
        tx.run("wake.rise", self._name, _WORKER)
        self._asleep = self._lies_down = self._is_written = False

    def just_lay_down(self) -> bool:
        """After a turn's commit: whether it is written down as asleep since then, and was not told of work yet."""
        lies_down, self._lies_down = self._lies_down, False
        self._asleep = self._asleep or lies_down
        return lies_down

    def look(self, connection: Connection, request: TurnRequest, hall: Hall, broom: Broom) -> Handed | None:
        """What a turn that has nothing to do would answer; None if there is something to do."""
        room = request.wanted > 0
        rows = connection.ask(
            "wake.look",
            request.incarnation,
            sorted(hall.serves[request.incarnation]),
            int(room),
            connection.wall,
            request.limiters,
            *broom.swept_to,
        )
        now, wall, work, suspects, aside, oldest, *times = rows[0]
        token, timer, buffer, override, lapse, wall_timer, schedule = times
        waits = [time - now for time in (token, timer, buffer, override, lapse) if time is not None]
        waits += [time - wall for time in (wall_timer, schedule) if time is not None]
        if suspects:
            waits.append(broom.next_deadlock - now)
        if aside:
            waits.append(hall.versions.due.get(request.incarnation, 0) - now)
        sweep = oldest is not None and oldest < now - broom.retention and now >= broom.next_sweep
        if work or sweep or (waits and min(waits) <= 0):
            return None
        return Handed(now=now, next_in=min(waits) if waits else None)

    def lie_down(self, tx: Tx, pid: int) -> None:
        """A client waits for runs to end."""
        tx.run("wake.sleep", self._name, _CLIENT, pid, tx.now)

    def get_up(self, tx: Tx) -> None:
        """No client waits any more."""
        tx.run("wake.rise", self._name, _CLIENT)

    def concerns(self, channel: str | None, text: str) -> bool:
        """Whether a message is about somebody here; it may end a sleep."""
        if channel is None:
            if text != GLANCE:  # maybe one was missed
                self._asleep = self._lies_down = self.waits = False
            return True
        if channel == self._channel:
            return text == WORK or text in self.here
        if text != END:
            self._asleep = self._lies_down = self._is_written = False
        return True

    # -- others

    def tell(self, connection: Connection, touched: Touched) -> None:
        """Wake those whom these changes concern."""
        if touched & _WORK or _LEFT_OVER in touched:
            connection.ask("wake.one")
        rung = [what.removeprefix(_RUNG) for what in touched if what.startswith(_RUNG)]
        if rung:
            connection.ask("wake.serving", rung)
        if "finish.run" in touched:
            connection.ask("wake.clients", self._name)
        if "settle.signal" in touched:
            connection.ask("wake.signals")
        if "limiter_config.want" in touched:
            connection.ask("wake.configured")
