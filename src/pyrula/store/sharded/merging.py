"""Merging: what several shards answer, as one answer. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from pyrula.errors import InvalidPayload, shown
from pyrula.model.run import Run
from pyrula.store.protocol import Gate
from pyrula.store.shard.reads import is_cursor

Row = dict[str, Any]
Numbered = tuple[list[tuple[int, Run]], str | None]
_OVER = "0"
"""A cursor before which there is no run."""


def cursors(cursor: str | None, shards: int) -> list[str | None]:
    """A cursor over several shards, taken apart. Raises `InvalidPayload` for what is none."""
    if not cursor:
        return [None] * shards
    parts = cursor.split(".")
    if len(parts) != shards or not all(part == "" or is_cursor(part) for part in parts):
        raise InvalidPayload(
            f"runs: cursor is {shown(cursor)}, none of this store; take it from the page before"
        )
    return [part or None for part in parts]


def newest(
    pages: Mapping[int, Numbered], before: Sequence[str | None], limit: int
) -> tuple[list[Run], str | None]:
    """The newest of all pages, and the cursor behind them. before: where each shard's page begins."""
    taken = sorted(
        ((run.submitted_at, seq, shard, run) for shard, (found, _) in pages.items() for seq, run in found),
        key=lambda each: each[:3],
        reverse=True,
    )[:limit]
    following = list(before)
    for shard, (found, rest) in pages.items():
        mine = [seq for _, seq, its_shard, _ in taken if its_shard == shard]
        if len(mine) == len(found):
            following[shard] = _OVER if rest is None else rest
        elif mine:
            following[shard] = str(mine[-1])
    over = all(cursor == _OVER for cursor in following)
    return [run for *_, run in taken], None if over else ".".join(cursor or "" for cursor in following)


def gates(answers: Iterable[Sequence[Gate]]) -> list[Gate]:
    """Counters, each once: one that was counted elsewhere under an earlier routing is idle there."""
    found: dict[tuple[str, str, str], Gate] = {}
    for gate in (gate for some in answers for gate in some):
        name = gate.name, gate.key, gate.kind
        found[name] = gate if name not in found else _both(found[name], gate)
    return list(found.values())


def _both(one: Gate, other: Gate) -> Gate:
    busy, idle = (one, other) if (one.queued, one.in_use) >= (other.queued, other.in_use) else (other, one)
    return msgspec.structs.replace(
        busy,
        in_use=one.in_use + other.in_use,
        queued=one.queued + other.queued,
        starts=one.starts + other.starts,
        holders=(*busy.holders, *idle.holders),
    )


def by_name(gate: Gate) -> tuple[str, str]:
    """The order of gates."""
    return gate.name, gate.key


def sorted_gates(found: list[Gate], sort: str) -> list[Gate]:
    """As a page of gates is sorted: by name, by queued runs (`queued`), or by slots taken (`busy`)."""
    found.sort(key=by_name)
    if sort != "name":
        found.sort(key=lambda gate: gate.queued if sort == "queued" else gate.in_use, reverse=True)
    return found


def rows(answers: Iterable[Sequence[Row]], key: Callable[[Row], Any]) -> list[Row]:
    """Rows of all shards in one order."""
    return sorted((row for some in answers for row in some), key=key)


def by_time(name: str) -> Callable[[Row], Any]:
    """Rows by an instant; those without one last."""
    return lambda row: (row[name] is None, row[name] or datetime.min)


def by_due(row: Row) -> Any:
    """Buffers, the one due first first."""
    return row["due_at"], row["workflow"], row["key"]


def once(answers: Iterable[Sequence[Row]], *names: str) -> list[Row]:
    """Rows that several shards may hold alike, each once."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in (row for some in answers for row in some):
        found.setdefault(tuple(row[name] for name in names), row)
    return list(found.values())


def workers(answers: Mapping[int, Sequence[Row]], unreached: Mapping[int, str]) -> list[Row]:
    """Workers, each once. alive: on one shard at least; unreached: the shards that it can't be seen on, and why."""
    found: dict[str, Row] = {}
    for shard, some in answers.items():
        for row in some:
            one = found.setdefault(row["incarnation"], {**row, "executing": 0, "alive": False, "shards": []})
            one["executing"] += row["executing"]
            one["alive"] = one["alive"] or row["alive"]
            one["expires_at"] = max(one["expires_at"], row["expires_at"])
            if row["alive"]:
                one["shards"].append(shard)
    for one in found.values():
        one["unreached"] = {
            **{shard: "not registered there" for shard in answers if shard not in one["shards"]},
            **unreached,
        }
    return sorted(found.values(), key=lambda row: (row["worker_id"], row["incarnation"]))


def overview(answers: Sequence[Row]) -> Row:
    """What runs, what waits, and for what, on all shards."""
    return {
        "executing": dict(_sum(each["executing"] for each in answers)),
        "queued": sum(each["queued"] for each in answers),
        "queued_is_more": any(each["queued_is_more"] for each in answers),
        "parked": dict(_sum(each["parked"] for each in answers)),
        "waiting": _grouped(answers, "waiting", ("workflow", "gate", "kind"), ("keys", "runs"), "since"),
        "ready": _grouped(answers, "ready", ("workflow",), ("runs",), "since"),
        "not_looked_at": sum(each["not_looked_at"] for each in answers),
        "buffers": _grouped(answers, "buffers", ("workflow",), ("buffers", "events"), "next_due_at"),
        "served": sorted({name for each in answers for name in each["served"]}),
        "live_workers": max(each["live_workers"] for each in answers),
    }


def _sum(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total


def _grouped(
    answers: Sequence[Row], part: str, names: Sequence[str], counts: Sequence[str], earliest: str
) -> list[Row]:
    found: dict[tuple[Any, ...], Row] = {}
    for row in (row for each in answers for row in each[part]):
        one = found.setdefault(tuple(row[name] for name in names), {**row, **dict.fromkeys(counts, 0)})
        for count in counts:
            one[count] += row[count]
        times = [time for time in (one[earliest], row[earliest]) if time is not None]
        one[earliest] = min(times) if times else None
    return list(found.values())
