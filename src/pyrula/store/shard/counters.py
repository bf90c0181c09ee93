"""Counters: the gates as operators see them, each with its numbers, who is inside and how many are in
line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from pyrula.model.gate import FOREVER, WaitKey
from pyrula.policies import tokens
from pyrula.policies.declared import from_json
from pyrula.policies.stamp import Stamp, gate_id
from pyrula.store.protocol import Gate, Pause
from pyrula.store.shard.inside import holders
from pyrula.store.shard.instants import instant
from pyrula.store.shard.overrides import Number, Overrides
from pyrula.store.shard.rows import BEFORE_ALL, place_of
from pyrula.store.shard.tx import Tx

KINDS: Final = ("limit", "rate", "limit")
"""By gates.kind; the last is a slot gate."""
_SCAN: Final = 200_000
_LANES: Final = 20_000
_HOLDERS: Final = 100


class Counter(NamedTuple):
    """A gate's row. paused: until when the `RetryAfter` of the run closed_by closed it. starts: ever."""

    id: bytes
    name: str
    key: str
    kind: str
    in_use: int = 0
    debt: int = 0
    at: int = 0
    q: int = 1
    paused: int = 0
    closed_by: str | None = None
    starts: int = 0

    @classmethod
    def of_row(cls, row: tuple[Any, ...]) -> Counter:
        """row: the columns of `counters.gate`."""
        id, name, key, kind, in_use, debt, *rest = row
        return cls(id, name, key, KINDS[kind], in_use, int(debt), *rest)


def gates(tx: Tx, name: str | None = None, key: str | None = None, limit: int = 1000) -> list[Gate]:
    """Gates by name and key, at most `limit`: those that were used, and those that queued runs will use.

    max, per_second and burst: an override's number, else the stamped one of the run that is first in line there; where
    none waits, what the newest declaration says, else a stamp.
    queued counts up to 200,000 queued runs of the shard. next_start_at: when it may let the next one in; None
    where that takes a slot, or an operator.
    """
    rows = tx.rows("counters.gates", name, key, limit)
    found = {row[0]: Counter.of_row(row) for row in rows}
    queued = _in_line(tx, found, name, key)
    counters = sorted(found.values(), key=lambda gate: (gate.name, gate.key, gate.kind))[:limit]
    overrides, stamped = Overrides.load(tx), numbers(tx, [(gate, queued[gate.id]) for gate in counters])
    inside = holders(tx, [gate.id for gate in counters if gate.in_use], _HOLDERS)
    return [
        shown(tx, gate, queued[gate.id], overrides, stamped.get(gate.id), inside.get(gate.id, ()))
        for gate in counters
    ]


def effective(overrides: Overrides, kind: str, name: str, key: str, stamped: Number | None) -> Number | None:
    """The number that holds for a gate: an override's, else the stamped one."""
    number: Number | None = overrides.limit(name, key) if kind == "limit" else overrides.rate(name, key)
    return stamped if number is None else number


def shut_until(overrides: Overrides, gate: Counter) -> int:
    """Until when a gate lets nobody in: for an operator, or for a `RetryAfter`."""
    return max(gate.paused, overrides.paused_until(gate.name, gate.key))


def pauses(tx: Tx, overrides: Overrides, gate: Counter) -> tuple[Pause, ...]:
    """Who keeps a gate shut, and until when: an operator, the last run that raised `RetryAfter`, or both."""
    found = []
    until = overrides.paused_until(gate.name, gate.key)
    if until > tx.now:
        every = overrides.every_key(gate.name, gate.key, "pause")
        found.append(Pause(by="operator", until=instant(tx, until), every_key=every))
    if gate.paused > tx.now:
        found.append(Pause(by="run", until=instant(tx, gate.paused), run_id=gate.closed_by))
    return tuple(found)


def next_start(gate: Counter, number: Number | None, paused: int, now: int) -> int | None:
    """When a gate may let the next run in (µs, not before `now`); None where time alone won't do."""
    opens = max(now, paused)
    if opens >= FOREVER:
        return None
    if isinstance(number, tuple):
        return max(opens, tokens.next_start(gate.debt, gate.at, gate.q, number, now))
    return opens if number is None or gate.in_use < number else None


def shown(
    tx: Tx,
    gate: Counter,
    queued: int,
    overrides: Overrides,
    stamped: Number | None,
    holders: Iterable[str] = (),
) -> Gate:
    """A counter as users see it. stamped: what `numbers` found."""
    number = effective(overrides, gate.kind, gate.name, gate.key, stamped)
    paused = shut_until(overrides, gate)
    rate = number if isinstance(number, tuple) else None
    return Gate(
        name=gate.name,
        kind=gate.kind,
        key=gate.key,
        in_use=gate.in_use,
        max=number if isinstance(number, int) else None,
        queued=queued,
        tokens=None if rate is None else tokens.available(gate.debt, gate.at, gate.q, rate, tx.now),
        next_start_at=instant(tx, next_start(gate, number, paused, tx.now)),
        paused_until=instant(tx, paused) if paused > tx.now else None,
        per_second=None if rate is None else rate[0] / rate[1],
        burst=None if rate is None else rate[2],
        holders=tuple(holders),
        override=_override(tx, overrides.of(gate.name, gate.key)),
        starts=gate.starts,
        pauses=pauses(tx, overrides, gate) if paused > tx.now else (),
    )


def _override(tx: Tx, found: dict[str, Any] | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        kind: told(tx, kind, held["number"])
        | {"expires_at": instant(tx, held["expires_at"]), "every_key": held["every_key"]}
        for kind, held in found.items()
    }


def told(tx: Tx, kind: str, number: Any) -> dict[str, Any]:
    """An override's number for people: `max`; `per_second` and `burst`; of a pause `until`, None without end."""
    if kind == "pause":
        return {"until": instant(tx, number)}
    if kind == "limit":
        return {"max": number}
    p, q, burst = number
    return {"per_second": p / q, "burst": burst}


def _in_line(
    tx: Tx, found: dict[bytes, Counter], name: str | None, key: str | None
) -> defaultdict[bytes, int]:
    """Queued runs by gate. Adds to `found` the gates of those that no turn has looked at yet."""
    queued: defaultdict[bytes, int] = defaultdict(int)
    for count, ids, stamp, keys in tx.rows("counters.lanes", _SCAN, _LANES):
        if ids is not None:
            for start in range(0, len(ids), 16):
                queued[ids[start : start + 16]] += count
            continue
        its_keys = msgspec.json.decode(keys, type=tuple[str, ...])
        for gate, its_key in zip(Stamp.decode(stamp).gates, its_keys, strict=True):
            id = gate_id(gate.name, gate.kind, its_key)
            queued[id] += count
            if name in (None, gate.name) and key in (None, its_key):
                found.setdefault(id, Counter(id, gate.name, its_key, gate.kind))
    return queued


def numbers(tx: Tx, counters: Sequence[tuple[Counter, int]]) -> dict[bytes, Number]:
    """The number, but for overrides, that the next start at each of these gates goes by, by id: the stamped one of who
    is first in line, as `why` tells it, else the declared one. counters: each with how many are queued.
    """
    declared = _declared(tx)
    found = {
        gate.id: declared[gate.name, gate.kind] for gate, _ in counters if (gate.name, gate.kind) in declared
    }
    names = {gate.id: (gate.name, gate.kind) for gate, queued in counters if queued}
    lines = tx.match("loader.lines", [(id,) for id in names])
    lanes: dict[bytes, WaitKey] = {}  # by gate the first of its lines' first ones
    for row in tx.match("loader.waiting", [(*line, *BEFORE_ALL, 1) for line in lines]):
        place = place_of(row)
        lanes[row[7]] = min(place, lanes.get(row[7], place))
    # A lane's row tells its head's number as of the last turn: a restamp may have come since.
    stamps: dict[bytes, bytes] = dict(
        tx.match("counters.stamp", sorted({(place[3],) for place in lanes.values()}))
    )
    for id, (*_, lane) in lanes.items():
        for gate in Stamp.decode(stamps[lane]).gates if lane in stamps else ():
            if (gate.name, gate.kind) == names[id]:
                found[id] = gate.number
    return found


def _declared(tx: Tx) -> dict[tuple[str, str], Number]:
    """What gates are declared or stamped with, by (name, kind)."""
    found: dict[tuple[str, str], Number] = {}
    for (stamp,) in tx.rows("steer.stamps"):
        found.update({(gate.name, gate.kind): gate.number for gate in Stamp.decode(stamp).gates})
    for (declaration,) in tx.rows("counters.declarations"):
        for gate in from_json(msgspec.json.decode(declaration)).gates:
            found[gate.name, gate.kind] = gate.number
    return found
