"""Schedules: when a workflow submits itself. Ticks are instants of the wall clock, alike for every worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from pyrula.errors import ConfigurationError, NotJson, PayloadTooLarge, shown
from pyrula.model.duration import Duration, to_us
from pyrula.model.payload import encode
from pyrula.policies.check import check_duration, refusal

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SHORTEST_US: Final = 100_000
_NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True)
class Cron:
    """Submit a run at each tick of a cron expression.

    expr: the five fields of cron (minute, hour, day of month, month, day of week), or six with seconds first,
    or a nickname such as `@daily`. tz: an IANA time zone. params: of each run.

    Daylight saving, as Debian's cron has it: a tick at fixed times that the clocks skip comes right after the
    gap, one in the hour they repeat comes once, the first time; wildcard hours or minutes (`*/15 * * * *`) go
    by real time.

    A bad value raises `ConfigurationError` where the workflow is declared, not here.
    """

    expr: str
    tz: str = "UTC"
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def check(self, workflow: str) -> None:
        """Raise `ConfigurationError` unless this can be kept."""
        if not isinstance(self.expr, str):
            raise refusal(workflow, "Cron.expr", self.expr, 'a str such as "0 9 * * *"')
        try:
            if not isinstance(self.tz, str):
                raise TypeError
            _zone(self.tz)
        except (ValueError, TypeError, KeyError, OSError):
            raise refusal(
                workflow, "Cron.tz", self.tz, 'the name of an IANA time zone, such as "Europe/Berlin"'
            ) from None
        try:
            _next_tick(self.expr, self.tz, 0)
        except (CronSimError, ValueError) as error:
            must = f'a cron expression such as "0 9 * * *" that comes due some day ({error})'
            raise refusal(workflow, "Cron.expr", self.expr, must) from None
        check_params(workflow, "Cron.params", self.params)

    def next_after(self, wall_us: int) -> int:
        """The first tick after `wall_us`; both are wall-clock µs since 1970 (UTC)."""
        return _next_tick(self.expr, self.tz, wall_us)

    def declaration(self) -> dict[str, Any]:
        """This schedule as JSON."""
        return {"cron": self.expr, "tz": self.tz, "params": dict(self.params)}


@dataclass(frozen=True)
class Every:
    """Submit a run every `seconds`, at multiples of it since 1970 (UTC), so that all workers agree on the
    ticks.

    seconds: seconds or a timedelta, at least 0.1 s (for more, declare a Rate). params: of each run.

    A bad value raises `ConfigurationError` where the workflow is declared, not here.
    """

    seconds: Duration
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def check(self, workflow: str) -> None:
        """Raise `ConfigurationError` unless this can be kept."""
        if check_duration(workflow, "Every.seconds", self.seconds) < _SHORTEST_US:
            raise refusal(workflow, "Every.seconds", self.seconds, "at least 0.1 s")
        check_params(workflow, "Every.params", self.params)

    def next_after(self, wall_us: int) -> int:
        """The first tick after `wall_us`; both are wall-clock µs since 1970 (UTC)."""
        period = to_us(self.seconds)
        return (wall_us // period + 1) * period

    def declaration(self) -> dict[str, Any]:
        """This schedule as JSON."""
        return {"every_us": to_us(self.seconds), "params": dict(self.params)}


def schedule_from(declaration: Mapping[str, Any]) -> Cron | Every:
    """The schedule of a declaration that `declaration()` wrote."""
    if "cron" in declaration:
        return Cron(declaration["cron"], declaration["tz"], declaration["params"])
    return Every(timedelta(microseconds=declaration["every_us"]), declaration["params"])


def tick_name(wall_us: int) -> str:
    """A tick's name, for run ids and people: its instant in UTC, such as `2026-03-29T09:00:00Z`."""
    instant = _EPOCH + timedelta(microseconds=wall_us)
    return instant.replace(tzinfo=None).isoformat() + "Z"


def check_params(workflow: str, argument: str, params: object) -> None:
    """Raise `ConfigurationError` unless `params` is a JSON object that a run may have."""
    if not isinstance(params, Mapping):
        raise refusal(workflow, argument, params, "a dict of the body's parameters")
    try:
        encode(dict(params), argument)
    except (NotJson, PayloadTooLarge) as error:
        raise ConfigurationError(f"workflow {shown(workflow)}: {error}") from None


@lru_cache(256)
def _zone(name: str) -> tzinfo:
    # cronsim has no daylight saving to mind for the plain UTC, and spares itself the conversions
    return UTC if name in ("UTC", "Etc/UTC") else ZoneInfo(name)


def _next_tick(expr: str, tz: str, wall_us: int) -> int:
    for tick in _ticks(expr, _local(wall_us, tz)):
        at = (tick - _EPOCH) // _MICROSECOND
        # cronsim counts in local time: in the hour that the clocks repeat it names ticks that have been, and
        # after the hour they skip it may name one instant twice.
        if at > wall_us:
            return at
    raise ValueError("no tick within fifty years")


def _local(wall_us: int, tz: str) -> datetime:
    return (_EPOCH + timedelta(microseconds=wall_us)).astimezone(_zone(tz))


def _ticks(expr: str, after: datetime) -> Iterator[datetime]:
    return iter(CronSim(_NICKNAMES.get(expr.strip().lower(), expr), after))
