"""The limiter of one worker: asks all its levels, its buckets and the machine before the worker polls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyrula.limiters.asking import Ask, Group
from pyrula.limiters.config import (
    DEFAULT_CHECK_FREQUENCY,
    Duration,
    LimiterConfig,
    Limits,
    OsLimitable,
    PollRate,
    check_places,
    microseconds,
    parse_limits,
    poll_rate,
)
from pyrula.limiters.events import WaitStarted, WaitStopped
from pyrula.limiters.holding import Hold, held_by
from pyrula.limiters.leaky import Bucket
from pyrula.limiters.levels import Counters, Level, LimitedBy, Listed, Room, count, listed, room
from pyrula.limiters.stats import Figure, Stats, figures_of, stats_of
from pyrula.model.duration import SECOND

if TYPE_CHECKING:
    from pyrula.limiters.hub import Hub

UNCHANGED: Final[Any] = object()
UNPOLLED: Final = ("activity_direct", "activity_eager")
"""Handed over without a poll of their own: no bucket spaces them."""


class Limiter:
    """What one worker asks before it takes more. Made by `Hub.worker`; every call is thread-safe.

    Before a poll: `reserve`; after it: `polled`; around each execution: `begin` and `end`.
    """

    def __init__(
        self,
        hub: Hub,
        levels: tuple[Level, Level, Level],
        *,
        kinds: tuple[str, ...],
        pools: Mapping[str, int],
        strict: bool,
        families_apart: bool,
    ) -> None:
        self.hub = hub
        self.levels = levels
        self.kinds = kinds
        self.pools = pools
        self.strict = strict
        self.families_apart = families_apart
        self.limits = Limits()
        self.soon: Mapping[OsLimitable, float] = {}
        """Limits of the machine about to be set: sampled before they hold."""
        self.closed = False
        self.resting = False
        self._counters = Counters(
            {kind: tuple(level.counters[kind] for level in levels) for kind in levels[0].counters}
        )
        self._rate: PollRate | None = None
        self._check_seconds = DEFAULT_CHECK_FREQUENCY
        self.check = microseconds("limiter_check_frequency", DEFAULT_CHECK_FREQUENCY)
        self._buckets: dict[str, Bucket] = {}
        self._holds: dict[str, Hold] = {}
        self._listed: dict[str, tuple[Listed, ...]] = {}
        """Which limits hold the polls for a kind; made when they are first asked for."""

    @property
    def worker_id(self) -> str:
        """The worker's name."""
        return self.levels[0].name

    @property
    def cluster(self) -> str:
        """The name of the worker's cluster."""
        return self.levels[1].name

    # -- the way of a poll

    def room(self, kind: str, now: int | None = None) -> Room:
        """How many of `kind` may be taken now, over every level, window, bucket and the machine."""
        self.hub.freshen(now)
        with self.hub.turn(now) as at:
            return self._look(kind, at)

    def reserve(self, kind: str, n: int = 1, now: int | None = None) -> int:
        """Hold places for up to `n` of `kind`, counted as polls; how many were held (0: the worker waits)."""
        check_places("n", n)
        self.hub.freshen(now)
        with self.hub.turn(now) as at:
            free = self._look(kind, at).n
            held = n if free is None else min(n, free)
            self._hold_places(kind, held, at)
            return held

    def polled(self, kind: str, asked: int, got: int, *, stay_open: bool = False) -> None:
        """Of `asked` places held, `got` will `begin`; the rest came back empty and are free again.

        stay_open: empty polls go on waiting for work, so that the next `reserve` goes on with them.
        """
        check_places("got", got, asked)
        if stay_open and asked > got:
            with self.hub.here as _:
                if kind in self._buckets:
                    self._buckets[kind] = self._bucket(kind).stay_open(asked - got)
        self.release(kind, asked - got)

    def release(self, kind: str, n: int = 1, group: Group | None = None) -> None:
        """Give back places that were held and will not be used."""
        if n:
            self._change(kind, reserved=-n, group=group)

    def begin(
        self, kind: str, n: int = 1, *, reserved: bool | None = None, group: Group | None = None
    ) -> None:
        """`n` executions of `kind` begin; `reserved`: in places held before (None: while there are such)."""
        with self.hub.here as now:
            places = min(n, self._counters[kind][0].held.reserved) if reserved is None else n * reserved
            self._move(kind, now, n, -places, 0, n, group)

    def end(self, kind: str, n: int = 1) -> None:
        """`n` executions of `kind` ended."""
        self._change(kind, running=-n)

    def arrive(self, kind: str, group: Group | None = None) -> None:
        """One execution of `kind` runs in a place held before; `settle` tells whether it counts as begun."""
        self._change(kind, running=1, reserved=-1, arriving=1, group=group)

    def settle(self, kind: str, *, lives: bool, began: bool) -> None:
        """What arrived lives on or was none; `began`: it goes into the window as one that began."""
        self._change(kind, arriving=-1, began=int(began), running=0 if lives else -1)

    def revive(self, kind: str, *, began: bool) -> None:
        """An execution of `kind` runs without a place held for it; `began`: it goes into the window."""
        self._change(kind, running=1, began=int(began))

    # -- waiting in line

    def ask(self, ask: Ask, now: int | None = None) -> bool:
        """Ask for one place; whether it was granted at once. Those who wait are served in the order they asked."""
        hub = self.hub
        hub.freshen(now)
        with hub.turn(now) as at:
            if hub.asks:
                hub.serve(at)
            if self.try_grant(ask, at):
                return True
            hub.asks.append(ask)
            return False

    def ask_unpolled(self, ask: Ask) -> bool:
        """Grant `ask`, for an execution that comes without a poll, if there is room now; it does not wait."""
        self.hub.freshen(None)
        with self.hub.here as now:
            self.hub.roll(now)
            if self._decide(ask.kind, now, polled=False).n == 0:
                return False
            self._hold_places(ask.kind, 1, now, ask.group, polled=False)
            ask.granted, ask.granted_at = True, now
            return True

    def withdraw(self, ask: Ask) -> bool:
        """Stop waiting; False if the place was granted before, which must then be released."""
        with self.hub.here as _:
            if not ask.granted:
                self.hub.drop(ask)
            return not ask.granted

    def leaves(self, ask: Ask) -> None:
        """The poll that `ask` was granted for leaves now: the next of its poller is spaced from here."""
        if self._rate is not None and ask.kind in self._buckets:
            with self.hub.here as now:
                self._buckets[ask.kind] = self._bucket(ask.kind).later(ask.granted_at, now)

    def force(self, ask: Ask) -> bool:
        """Grant `ask` whatever the limits say, for what must run so that its worker can stop; False if it was."""
        with self.hub.here as now:
            if ask.granted or self.closed:
                return False
            self.hub.drop(ask)
            self._hold_places(ask.kind, 1, now, ask.group)
            ask.granted = True
            return True

    def look(self, now: int | None = None) -> None:
        """Look whether those who wait may go on; to be called at their `look_at`."""
        self.hub.freshen(now)
        with self.hub.turn(now) as at:
            self.hub.serve(at)

    # -- configuration and figures

    def get_config(self) -> LimiterConfig:
        """The configuration in force."""
        with self.hub.here as _:
            return LimiterConfig(self.limits.shape(), self._rate, self._check_seconds)

    def set_config(
        self,
        limits: Mapping[str, Any] | None = UNCHANGED,
        task_poller_limiter: PollRate | None = UNCHANGED,
        limiter_check_frequency: Duration = UNCHANGED,
    ) -> LimiterConfig:
        """Change what is given, all or nothing; what executes goes on. `limits={}` clears all levels.

        Raises ConfigurationError, and changes nothing, for what the worker could not have been made with.
        """
        checked = self.limits if limits is UNCHANGED else parse_limits(limits, self.kinds)
        rate = self._rate if task_poller_limiter is UNCHANGED else poll_rate(task_poller_limiter)
        seconds = self._check_seconds if limiter_check_frequency is UNCHANGED else limiter_check_frequency
        check = microseconds("limiter_check_frequency", seconds)
        with self.hub.here as _:
            self.soon = checked.os
        try:
            self.hub.watch(checked.os)
            with self.hub.here as now:
                self.limits, self.check, self._check_seconds = checked, check, check / SECOND
                self._listed = {}
                self._set_rate(rate)
                self.hub.serve(now)
        finally:
            self.soon = {}
        return LimiterConfig(checked.shape(), rate, check / SECOND)

    def stats(self) -> Stats:
        """The worker's counters, and what holds it back."""
        with self.hub.here as now:
            self.hub.roll(now)
            held = {kind: hold.reasons for kind, hold in self._holds.items()}
            return stats_of(self.levels[0], self.kinds, held)

    def figures(self) -> tuple[Figure, ...]:
        """What each limit that it lists is held against, at every level."""
        with self.hub.here as now:
            self.hub.roll(now)
            return figures_of(self.limits, self.levels, self.hub.sampler.values)

    def close(self) -> None:
        """Take the worker out of the hub: what it still counted is given back, who waits is not served."""
        with self.hub.here as now:
            if self.closed:
                return
            for counters in self._counters.values():
                held = counters[0].held
                count(counters, -held.running, -held.reserved, -held.arriving, 0)
            for kind in tuple(self._holds):
                self._stop_hold(kind, now)
            self.closed = True
            self.hub.leave(self)
            self.hub.serve(now)

    def lists(self, kind: str, *, where_listed: str) -> bool:
        """Whether every level that limits `where_listed` limits `kind` too."""
        limits = self.limits
        return all(
            kind in level or where_listed not in level
            for level in (limits.worker, limits.cluster, limits.node)
        )

    # -- under the hub's lock

    @property
    def watched(self) -> tuple[OsLimitable, ...]:
        """What is read of the machine for it."""
        return (*(() if self.resting else self.limits.os), *self.soon)

    def places_left(self, kind: str) -> int | None:
        """How many places the counters leave; None is no limit. Under the hub's lock."""
        self.hub.roll(self.hub.now)
        return self._decide(kind, self.hub.now, polled=False).n

    def try_grant(self, ask: Ask, now: int) -> bool:
        """Grant `ask` if its turn has come; else say when to look again. Under the hub's lock."""
        if not ask.group.allow():
            ask.look_at = now + self.check
            return False
        found = self._look(ask.kind, now)
        if found.n == 0:
            ask.look_at = min(found.retry_at or now + self.check, now + self.check)
            return False
        self._hold_places(ask.kind, 1, now, ask.group)
        ask.granted, ask.granted_at = True, now
        return True

    def _look(self, kind: str, now: int) -> Room:
        if now >= self.hub.next_edge:
            self.hub.roll(now)
        found = self._decide(kind, now)
        hold = self._holds.get(kind)
        if found.n == 0:
            if hold is None:
                self._holds[kind] = Hold(now, found.limited_by)
                delay = min(found.retry_at or 0, now + self.check) - now
                reasons = tuple(held_by(found.limited_by))
                self.hub.post(WaitStarted(self.worker_id, self.cluster, kind, delay / SECOND, reasons, now))
            else:
                hold.look(now, found.limited_by)
        elif hold is not None:
            self._stop_hold(kind, now)
        return found

    def _decide(self, kind: str, now: int, *, polled: bool = True) -> Room:
        if kind not in self._listed:
            serves = "workflow" in self.kinds
            self._listed[kind] = listed(
                kind, self.limits, self.levels, serves_workflows=serves, families_apart=self.families_apart
            )
        found = room(
            self._listed[kind],
            self._counters[kind][0].held.reserved,
            now=now,
            check=self.check,
            # A local activity's place is held while idle, and no poll ends that: it may hold no other worker.
            strict=self.strict and kind != "activity_direct",
        )
        if self._rate is None and not self.limits.os:
            return found
        why = list(found.limited_by)
        retry = found.retry_at or now
        if self.limits.os and (full := self.hub.sampler.held_by(self.limits.os)):
            why += full
            retry = max(retry, now + self.check)
        free = found.n
        if self._rate is not None and polled and kind not in UNPOLLED:
            bucket = self._bucket(kind)
            ready = bucket.ready(now)
            if ready == 0:
                why.append(LimitedBy("poller", kind, "poll", bucket.next_at - now, bucket.interval))
                retry = max(retry, bucket.next_at)
            free = ready if free is None else min(free, ready)
        return Room(0, tuple(why), retry) if why else Room(free)

    def _set_rate(self, rate: PollRate | None) -> None:
        if rate != self._rate:
            self._rate = rate
            interval = rate.interval if rate else 0
            self._buckets = {k: b.respaced(interval) for k, b in self._buckets.items()} if rate else {}

    def _bucket(self, kind: str) -> Bucket:
        if kind not in self._buckets:
            assert self._rate is not None
            self._buckets[kind] = Bucket.of(self._rate.interval, self.pools[kind])
        return self._buckets[kind]

    def _hold_places(
        self, kind: str, n: int, now: int, group: Group | None = None, *, polled: bool = True
    ) -> None:
        if n:
            count(self._counters[kind], 0, n, 0, 0)
            if group is not None:
                group.held += n
            if self._rate is not None and polled and kind not in UNPOLLED:
                self._buckets[kind] = self._bucket(kind).take(now, n)

    def _change(
        self,
        kind: str,
        running: int = 0,
        reserved: int = 0,
        arriving: int = 0,
        began: int = 0,
        group: Group | None = None,
    ) -> None:
        with self.hub.here as now:
            self._move(kind, now, running, reserved, arriving, began, group)

    def _move(
        self,
        kind: str,
        now: int,
        running: int,
        reserved: int,
        arriving: int,
        began: int,
        group: Group | None,
    ) -> None:
        if self.closed:
            return
        count(self._counters[kind], running, reserved, arriving, began)
        if group is not None:
            group.held += reserved
        if self.hub.asks:  # there may be room for them now, or an allowance
            self.hub.serve(now)

    def _stop_hold(self, kind: str, now: int) -> None:
        hold = self._holds.pop(kind)
        hold.look(now, ())
        self.hub.post(WaitStopped(self.worker_id, self.cluster, kind, hold.seconds, now))
