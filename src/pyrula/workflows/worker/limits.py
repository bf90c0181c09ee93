"""Where the worker meets its limiters: how many runs it may ask for, when to look again, what to say of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from pyrula.clock import Clock, SystemClock
from pyrula.errors import ConfigurationError
from pyrula.limiters import Hub, LimitedBy, Limiter, LimiterConfig, hub
from pyrula.limiters.stats import Figure
from pyrula.limiters.wire import changes_from_json, config_to_json, figure_to_json, reason_to_json

_log = logging.getLogger("pyrula.worker")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_hubs: WeakValueDictionary[int, Hub] = WeakValueDictionary()
"""Clocks other than the machine's have a hub of their own, by the clock's `id`: counters of two times can't be
added up. A hub holds its clock, so an id means that clock for as long as it is here; limiters hold the hub."""


class Room(NamedTuple):
    """runs: that may be asked for now, places held for them. look_in: µs until a limiter is to be asked
    again."""

    runs: int
    look_in: int | None = None


class Limits:
    """One worker's limiters; executions are counted by the batch, so that a worker without limits pays
    nothing much.

    number: of the last change from elsewhere that it has taken up in this life. news: called when `facts` has
    something new to say.
    """

    def __init__(self, limiter: Limiter, clock: Clock) -> None:
        self.limiter = limiter
        self.number = 0
        self.news: Callable[[], None] = _nobody_asks
        self._clock = clock
        self._listed = bool(limiter.get_config().limits)
        self._refused: str | None = None
        self._held: tuple[LimitedBy, ...] = ()
        self._held_since: datetime | None = None

    @staticmethod
    def of(clock: Clock, worker_id: str, cluster: str, options: Mapping[str, Any]) -> Limits:
        """The limiters of a worker. Raises `ConfigurationError`."""
        return Limits(_hub(clock).worker(worker_id, cluster, **options), clock)

    def room(self, free: int) -> Room:
        """Hold places for up to `free` runs."""
        if free <= 0:
            return Room(0)
        held = self.limiter.reserve("workflow", free)
        if held:
            if self._held:
                self._hold(())
            return Room(held)
        found = self.limiter.room("workflow")
        self._hold(found.limited_by)
        if found.retry_at is None:  # an edge was passed between the two looks
            return Room(0, 0)
        now = self._clock.monotonic()
        check = round(self.limiter.get_config().limiter_check_frequency * 1_000_000)
        return Room(0, min(check, max(0, found.retry_at - now) or check))

    def began(self, asked: int, got: int) -> None:
        """Of `asked` places held, `got` runs begin."""
        if asked != got:
            self.limiter.polled("workflow", asked, got, stay_open=True)
        if got:
            self.limiter.begin("workflow", got, reserved=True)
            self._counted()

    def ended(self, runs: int) -> None:
        """So many runs ended."""
        if runs:
            self.limiter.end("workflow", runs)
            self._counted()

    def step_began(self) -> None:
        """A step executes."""
        self.limiter.begin("activity_direct", reserved=False)
        self._counted()

    def step_ended(self) -> None:
        """A step ended."""
        self.limiter.end("activity_direct")
        self._counted()

    # -- configuration

    def configure(self, changes: Mapping[str, Any]) -> LimiterConfig:
        """Change what is given, live and all or nothing. Raises `ConfigurationError`."""
        config = self.limiter.set_config(**changes)
        self._listed = bool(config.limits)
        self._refused = None
        return config

    def take_up(self, number: int, changes: bytes) -> None:
        """A change made from elsewhere. One that this machine can't keep changes nothing, and is told in `facts`."""
        self.number = number
        try:
            self.configure(changes_from_json(msgspec.json.decode(changes)))
        except ConfigurationError as error:
            self._refused = str(error)
            _log.error("worker %s keeps its limiters as they are: %s", self.limiter.worker_id, error)
        self.news()

    # -- what it says of itself

    def rouse(self, news: Callable[[], None]) -> None:
        """The worker begins; what changes is to be told to `news`."""
        self.news = news
        self.limiter.hub.rest(self.limiter, False)

    def hush(self) -> None:
        """The worker has ended: there is no row to write to, and nothing to read of the machine."""
        self.news = _nobody_asks
        self.limiter.hub.rest(self.limiter, True)

    def facts(self) -> dict[str, Any]:
        """For the worker's row: configuration, what each limit is held against, and what holds the worker back."""
        ahead = self._clock.wall() - self._clock.monotonic()
        said: dict[str, Any] = {
            "config": config_to_json(self.limiter.get_config()),
            "number": self.number,
            "in_use": [_figure(figure, ahead) for figure in self.limiter.figures()],
        }
        if self._refused is not None:
            said["refused"] = self._refused
        return {
            "limiters": said,
            "held_back": [reason_to_json(reason) for reason in self._held],
            "held_since": self._held_since,
        }

    def _hold(self, reasons: tuple[LimitedBy, ...]) -> None:
        """It is held back by other limits than before, or by none. Values that move are no news."""
        if _limits_of(reasons) != _limits_of(self._held):
            if not reasons or not self._held:
                self._held_since = _instant(self._clock.wall()) if reasons else None
            self.news()
        self._held = reasons

    def _counted(self) -> None:
        if self._listed:
            self.news()


def _nobody_asks() -> None:
    """There is no row to write it to."""


def _limits_of(reasons: tuple[LimitedBy, ...]) -> list[tuple[Any, ...]]:
    return [(reason.level, reason.limitable, reason.measure, reason.limit) for reason in reasons]


def _figure(figure: Figure, ahead: int) -> dict[str, Any]:
    """ahead: what the wall clock says beyond the clock that windows are counted by, µs."""
    wire = figure_to_json(figure)
    if figure.ends_at is not None:
        wire["window_ends_at"] = _instant(figure.ends_at + ahead)
    return wire


def _instant(wall: int) -> datetime:
    return _EPOCH + timedelta(microseconds=wall)


def _hub(clock: Clock) -> Hub:
    if isinstance(clock, SystemClock):
        return hub
    found = _hubs.get(id(clock))
    if found is None:
        found = _hubs[id(clock)] = Hub(clock, threaded=False)
    return found
