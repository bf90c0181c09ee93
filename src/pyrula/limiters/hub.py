"""One hub per process knows every limited worker in it; it adds up node, clusters and workers under one lock.

Nothing here waits and nothing is a timer, but for one thread that samples the machine, and ends windows in
time while somebody listens; it is there only while it has something to do.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from pyrula.clock import SECOND, Clock, SystemClock, check_clock
from pyrula.errors import ConfigurationError, expect
from pyrula.limiters.asking import Ask
from pyrula.limiters.config import (
    DEFAULT_CHECK_FREQUENCY,
    LIMITABLES,
    SERVED,
    Duration,
    OsLimitable,
    PollRate,
    check_listener,
    check_name,
    check_pool,
    microseconds,
    time_windows,
)
from pyrula.limiters.events import Event, Listener, TaskCounter, tell
from pyrula.limiters.levels import Level
from pyrula.limiters.os import EVERY, OsReadings, OsSampler
from pyrula.limiters.stats import Stats, stats_of
from pyrula.limiters.worker import Limiter


class Hub:
    """The limiters of one process.

    clock: where time comes from; readings: where the machine's figures come from; threaded: whether a thread
    samples them (else whoever looks does, and `tick` ends windows).
    """

    def __init__(
        self, clock: Clock | None = None, readings: OsReadings | None = None, *, threaded: bool = True
    ) -> None:
        check_clock("Hub: clock", clock)
        reads = readings is None or isinstance(readings, OsReadings)
        expect("Hub: readings", readings, reads, "OsReadings of pyrula.limiters.os, or None")
        expect("Hub: threaded", threaded, isinstance(threaded, bool), "True or False")
        self.clock = clock or SystemClock()
        self.sampler = OsSampler(readings or OsReadings(), EVERY, hung_mounts_apart=threaded)
        self.asks: list[Ask] = []
        self.returned: deque[Callable[[], object]] = deque()
        """Places whose holder was lost: filled from anywhere, a finaliser too; the next turn settles them."""
        self._threaded = threaded
        self.lock = threading.Lock()
        self.here = Turn(self, None)
        """A turn of the present; every turn is, but where a caller says the time."""
        self.now = self.clock.monotonic()
        self._outbox: list[Callable[[], None]] = []
        self._listeners: tuple[Listener, ...] = ()
        self._limiters: weakref.WeakSet[Limiter] = weakref.WeakSet()
        self._clusters: dict[str, Level] = {}
        self._node = Level.of("node", "node", self.now, {})
        self.next_edge = self._node.next_edge
        self._thread: threading.Thread | None = None
        self._due_changed = threading.Event()
        self.node = NodeLimits(self)

    # -- what users call

    def worker(
        self,
        worker_id: str,
        cluster: str = "default",
        *,
        kinds: tuple[str, ...] = SERVED,
        limits: Mapping[str, Any] | None = None,
        limiter_time_windows: Mapping[str, Duration] | None = None,
        limiter_check_frequency: Duration = DEFAULT_CHECK_FREQUENCY,
        task_poller_pool_size: int = 1,
        task_poller_limiter: PollRate | None = None,
        strict: bool = True,
        families_apart: bool = False,
        pools: Mapping[str, int] | None = None,
    ) -> Limiter:
        """A limiter for a worker that serves `kinds`; raises ConfigurationError for what can't be kept.

        strict: whether other workers' polls on their way count at node and cluster level; families_apart:
        whether workflow, activity and Nexus polls are held at worker level by their own limitables alone;
        pools: the sizes of those kinds' pools that are not of `task_poller_pool_size`.
        """
        check_name("worker_id", worker_id)
        check_name("cluster", cluster)
        pool = task_poller_pool_size
        check_pool(pool)
        widths = time_windows(limiter_time_windows, kinds)
        with self.here as now:
            levels = (Level.of("worker", worker_id, now, widths), self._cluster(cluster, now), self._node)
            limiter = Limiter(
                self,
                levels,
                kinds=kinds,
                pools=dict.fromkeys(LIMITABLES, pool) | dict(pools or {}),
                strict=strict,
                families_apart=families_apart,
            )
            self._limiters.add(limiter)
            self.next_edge = 0
        try:
            limiter.set_config(limits, task_poller_limiter, limiter_check_frequency)
        except BaseException:
            self._limiters.discard(limiter)
            raise
        return limiter

    def cluster(self, name: str) -> ClusterLimits:
        """The cluster level of that name; its counters are made when it is first named."""
        check_name("cluster", name)
        with self.here as now:
            self._cluster(name, now)
        return ClusterLimits(self, name)

    def os_stats(self) -> dict[OsLimitable, float]:
        """The newest value of everything that is watched; -1 where it can't be read."""
        self.freshen(None)
        return dict(self.sampler.values)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hand every event to `listener`, on whatever thread it happens, until the returned call is made."""
        check_listener(listener)
        with self.here as _:
            self._listeners = (*self._listeners, listener)
        self._keep_thread()

        def stop() -> None:
            with self.here as _:
                self._listeners = tuple(one for one in self._listeners if one is not listener)
            self._due_changed.set()

        return stop

    def tick(self, now: int | None = None) -> None:
        """Take the samples that are due, end the windows that are over and let those who wait look."""
        at = self.clock.monotonic() if now is None else now
        self._forget_unwatched()
        self.sampler.refresh(at)
        with self.turn(at) as here:
            self.roll(here)
            self.serve(here)

    def close(self) -> None:
        """Close every limiter and let the thread end."""
        for limiter in tuple(self._limiters):
            limiter.close()
        with self.here as _:
            self._listeners = ()
            thread = self._thread
        self._due_changed.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(5)

    # -- what limiters call

    def turn(self, now: int | None) -> Turn:
        """Hold the lock and know the time, which never steps back. What there is to tell is told after it."""
        return self.here if now is None else Turn(self, now)

    def roll(self, now: int) -> None:
        """Bring every level's windows up to `now`. Under the lock."""
        if now < self.next_edge:
            return
        kinds = {id(one.levels[0]): one.kinds for one in self._limiters}
        levels = self._levels()
        for level in levels:
            for kind, ended in level.roll(now):
                if kind in kinds.get(id(level), LIMITABLES):
                    running, width = level.counters[kind].held.running, ended.width / SECOND
                    count = ended.count
                    self.post(TaskCounter(level.level, level.name, kind, count, running, width, ended.at))
        self.next_edge = min(level.next_edge for level in levels)

    def serve(self, now: int) -> None:
        """Grant what can be granted to those who wait, in the order they asked. Under the lock."""
        for ask in tuple(self.asks):
            limiter, group = ask.limiter, ask.group
            if limiter.closed:
                continue
            if group.held >= group.most:  # nearly all who wait at a busy worker, and each end comes by here
                ask.look_at = now + limiter.check
                continue
            looked_at = ask.look_at
            if limiter.try_grant(ask, now):
                self.asks.remove(ask)
                self._outbox.append(ask.told)
            elif ask.look_at < looked_at:  # whoever waits has set its alarm for later
                self._outbox.append(ask.sooner)

    def drop(self, ask: Ask) -> None:
        """Let `ask` wait no longer. Under the lock."""
        if ask in self.asks:
            self.asks.remove(ask)

    def post(self, event: Event) -> None:
        """Hand `event` to the listeners after this turn. Under the lock."""
        if self._listeners:
            listeners = self._listeners
            self._outbox.append(lambda: tell(listeners, event))

    def rest(self, limiter: Limiter, resting: bool) -> None:
        """Sample for `limiter` no longer, or again."""
        with self.here as _:
            limiter.resting = resting
        self.watch({} if resting else limiter.limits.os)

    def leave(self, limiter: Limiter) -> None:
        """Forget `limiter`. Under the lock."""
        self._limiters.discard(limiter)
        self.asks = [ask for ask in self.asks if ask.limiter is not limiter]
        self._due_changed.set()

    def watch(self, wanted: Mapping[OsLimitable, float]) -> None:
        """Sample what is wanted; raises ConfigurationError for a mount that does not exist."""
        if wanted:
            self.sampler.watch(wanted, self.clock.monotonic())
        self._keep_thread()

    def freshen(self, now: int | None) -> None:
        """Without a thread, take the samples that are due."""
        if not self._threaded and self.sampler.next_due is not None:
            self.sampler.refresh(self.clock.monotonic() if now is None else now)

    # -- inside

    def _cluster(self, name: str, now: int) -> Level:
        if name not in self._clusters:
            self._clusters[name] = Level.of("cluster", name, now, {})
            self.next_edge = 0
        return self._clusters[name]

    def _levels(self) -> tuple[Level, ...]:
        return (self._node, *self._clusters.values(), *(one.levels[0] for one in self._limiters))

    def _stats(self, level: Level) -> Stats:
        with self.here as now:
            self.roll(now)
            return stats_of(level, LIMITABLES, {})

    def _resize(self, level: Level, windows: Mapping[str, Duration] | None) -> None:
        widths = time_windows(windows)
        with self.here as now:
            self.roll(now)
            level.resize(widths, now)
            self.next_edge = 0
        self._due_changed.set()

    def _forget_unwatched(self) -> None:
        with self.here as _:
            self.sampler.keep({name for one in self._limiters for name in one.watched})

    def _next_due(self) -> int | None:
        """When the thread has something to do; None when it has not. Under the lock."""
        edges = []
        if self._listeners:
            edges = [level.next_edge for level in self._levels()]
        sample = self.sampler.next_due
        return min(edges if sample is None else [*edges, sample], default=None)

    def _keep_thread(self) -> None:
        if not self._threaded:
            return
        with self.here as _:
            if self._thread is None and self._next_due() is not None:
                self._thread = threading.Thread(target=self._run, name="pyrula-limiters", daemon=True)
                self._thread.start()
        self._due_changed.set()

    def _run(self) -> None:
        while True:
            self._due_changed.clear()
            self._forget_unwatched()
            with self.here as now:
                due = self._next_due()
                if due is None:
                    self._thread = None
                    return
            if not self._due_changed.wait(max(0, due - now) / SECOND):
                self.tick()

    def after_fork(self) -> None:
        """Start anew in a forked child: what the parent executes, the child does not."""
        self.lock = threading.Lock()
        self._thread = None
        self._due_changed = threading.Event()
        self.asks, self._outbox = [], []
        self.returned.clear()
        for limiter in tuple(self._limiters):
            limiter.closed = True
        self._limiters.clear()
        self._node = Level.of("node", "node", self.now, {})
        self._clusters.clear()


class Turn:
    """One turn under the hub's lock; a generator for it would cost as much as what most turns do."""

    __slots__ = ("_hub", "_now")

    def __init__(self, hub: Hub, now: int | None) -> None:
        self._hub = hub
        self._now = now

    def __enter__(self) -> int:
        """Take the lock; the time."""
        hub = self._hub
        hub.lock.acquire()
        try:
            now = hub.clock.monotonic() if self._now is None else self._now
        except BaseException:
            hub.lock.release()
            raise
        if now > hub.now:
            hub.now = now
        return hub.now

    def __exit__(self, *_: object) -> None:
        """Give the lock back, then tell what there is to tell."""
        hub = self._hub
        outbox = hub._outbox
        if outbox:
            hub._outbox = []
        hub.lock.release()
        for call in outbox:
            call()
        while hub.returned:
            try:
                hub.returned.popleft()()
            except IndexError:  # another thread took the last one
                break


class NodeLimits:
    """The node level: all of this process."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def configure(
        self,
        *,
        limiter_time_windows: Mapping[str, Duration] | None = None,
        os_check_intervals: Mapping[str, Duration] | None = None,
    ) -> None:
        """Set window widths per limitable, and the seconds between samples of mem, cpu1, … and disk."""
        every = {}
        for name, interval in (os_check_intervals or {}).items():
            if name not in EVERY:
                known = ", ".join(EVERY)
                raise ConfigurationError(f"os_check_intervals: {name!r} is refused; expected one of {known}")
            every[name] = microseconds(f"os_check_intervals[{name!r}]", interval)
        self._hub._resize(self._hub._node, limiter_time_windows)
        self._hub.sampler.resample(every, self._hub.clock.monotonic())
        self._hub._due_changed.set()

    def stats(self) -> Stats:
        """The sum of all clusters."""
        return self._hub._stats(self._hub._node)

    def os_stats(self) -> dict[OsLimitable, float]:
        """The newest value of everything that is watched; -1 where it can't be read."""
        return self._hub.os_stats()


class ClusterLimits:
    """One cluster level: the workers of one store, or of one Temporal cluster, in this process."""

    def __init__(self, hub: Hub, name: str) -> None:
        self._hub = hub
        self.name = name

    def configure(self, *, limiter_time_windows: Mapping[str, Duration] | None = None) -> None:
        """Set window widths per limitable (seconds, or timedelta)."""
        self._hub._resize(self._hub._clusters[self.name], limiter_time_windows)

    def stats(self) -> Stats:
        """The sum of the cluster's workers."""
        return self._hub._stats(self._hub._clusters[self.name])


hub = Hub()
"""The hub of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=hub.after_fork)
